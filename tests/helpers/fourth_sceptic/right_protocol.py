"""Right: classes that meet the protocol in unusual ways."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from fourth_sceptic.base import Count, Tensor
from fourth_sceptic.broken_tables import Twin
from sdi.sketch.hashing import draw_buckets, draw_signs
from sdi.sketch.protocol import identity_of, matrix_shape
from sdi.sketch.shipped.count_and_tensor import scatter


class DuckTyped:
    """Right: derives from nothing and has what the protocol asks for, no more."""

    def __init__(self, shape, m, h, s):
        self.shape, self.size, self._h, self._s = tuple(shape), m, h, s

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 1:
            raise ValueError(f"m must be at least 1, got {m}")
        return cls(shape, m, *(one(prod(shape), m, "table", seed, name) for one in (draw_buckets, draw_signs)))

    @property
    def nbytes(self):
        return self._h.nbytes + self._s.nbytes

    def tables(self):
        return {"h": self._h, "s": self._s}

    def apply(self, x):
        x = np.asarray(x)
        lead = x.shape[: x.ndim - len(self.shape)]
        if x.shape != (*lead, *self.shape):
            raise ValueError(f"expected (..., {self.shape}), got {x.shape}")
        return scatter(x.reshape(*lead, prod(self.shape)), self._h, self._s, self.size)

    def apply_outer(self, u, v):
        u, v = np.asarray(u), np.asarray(v)
        if (u.shape[-1], v.shape[-1]) != matrix_shape(self.shape) or u.shape[:-1] != v.shape[:-1]:
            raise ValueError(f"expected pairs for {self.shape}, got {u.shape} and {v.shape}")
        return self.apply((u.swapaxes(-1, -2) @ v).reshape(*u.shape[:-2], *self.shape))

    def variance_factor(self):
        return 2 / self.size


class TupleSketch(NamedTuple):
    """Right: a named tuple; two are equal when their tables are."""

    shape: tuple
    size: int
    h: Any
    s: Any

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        one = Count.draw(shape, m, seed=seed, name=name)
        return cls(one.shape, one.size, one.h, one.s)

    @property
    def count(self):
        return Count(self.shape, self.size, self.h, self.s)

    @property
    def nbytes(self):
        return self.count.nbytes

    def tables(self):
        return {"h": self.h, "s": self.s}

    def apply(self, x):
        return self.count.apply(x)

    def apply_outer(self, u, v):
        return self.count.apply_outer(u, v)

    def variance_factor(self):
        return 2 / self.size

    def __eq__(self, other):
        return isinstance(other, TupleSketch) and identity_of(self) == identity_of(other)

    def __hash__(self):
        return hash(identity_of(self))


class MatrixOrVector(Tensor):
    """Right: TensorSketch with apply_outer by FFT; for a vector, draw gives a sketch of another class."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if len(shape) == 1:
            return Count.draw(shape, m, seed=seed, name=name)
        one = super().draw(shape, m, seed=seed, name=name)
        return one._with_sides()

    @classmethod
    def of_tables(cls, shape, m, tables):
        return super().of_tables(shape, m, tables)._with_sides()

    def _with_sides(self):
        """Sides that make up the tables: the first column as rows, the first row, relative to it, as columns."""
        h, s = self.h.reshape(self.shape), self.s.reshape(self.shape)
        first = Count(self.shape[:1], self.m, h[:, 0], s[:, 0])
        second = Count(self.shape[1:], self.m, (h[0] - h[0, 0]) % self.m, s[0] * s[0, 0])
        self.sides_of = first, second
        return self

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        spectra = (np.fft.rfft(side.apply(z.astype(np.float64))) for side, z in zip(self.sides_of, (u, v), strict=True))
        y = np.fft.irfft(np.multiply(*spectra).sum(axis=-2), n=self.m)
        return y.astype(u.dtype) if u.dtype.kind == "f" else y


class TorchTwin(Count):
    """Right: has a twin, with apply_outer, and sketches small parameters, too."""

    keeps_small = False

    def to_torch(self, device, dtype):
        return Twin(self, device, dtype)
