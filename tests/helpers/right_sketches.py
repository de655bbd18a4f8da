"""Right sketches of unusual kinds, which `sdi validate` must accept: each says in its docstring why it is right."""

from __future__ import annotations

from math import prod

import numpy as np
from good_sketch import Good

from sdi import LinearSketch
from sdi.sketch.hashing import normals


class Identity(LinearSketch):
    """Keeps everything, more numbers than m."""

    def __init__(self, shape):
        self._shape = tuple(shape)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape)

    @property
    def shape(self):
        return self._shape

    @property
    def size(self):
        return prod(self._shape)

    def tables(self):
        return {}

    def apply(self, x):
        x = self._check(x)
        return x.reshape(*x.shape[: x.ndim - len(self._shape)], self.size)

    def variance_factor(self):
        return 0.0


class Rotation(Identity):
    """A random rotation, two reflections: keeps all products, up to rounding."""

    def __init__(self, shape, mirrors):
        super().__init__(shape)
        self.mirrors = mirrors

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        if d > 1000:
            raise ValueError(f"shape must have at most 1000 entries, got {shape}")
        mirrors = normals(2 * d, seed, name).astype(float).reshape(2, d)
        return cls(shape, mirrors / np.linalg.norm(mirrors, axis=1, keepdims=True))

    def tables(self):
        return {"mirrors": self.mirrors}

    def apply(self, x):
        y = super().apply(x)
        for u in self.mirrors.astype(y.dtype if y.dtype.kind == "f" else float):
            y = y - 2 * (y @ u)[..., None] * u
        return y


class Doubles(Good):
    """Gives double precision whatever it gets."""

    def apply(self, x):
        return super().apply(np.asarray(x).astype(np.float64))


class EvenOnly(Good):
    """Refuses odd widths."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m % 2:
            raise ValueError(f"m must be even, got {m}")
        return super().draw(shape, m, seed=seed, name=name)


RIGHT = (Identity, Rotation, Doubles, EvenOnly)
