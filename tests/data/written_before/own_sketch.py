"""A user's own sketch: m entries of the flattened parameter in turn, each with a sign, summed by bucket."""

from dataclasses import dataclass
from math import prod

import numpy as np

from sdi import LinearSketch


@dataclass(frozen=True, eq=False)
class Own(LinearSketch):
    of: tuple
    m: int
    h: np.ndarray
    s: np.ndarray

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        rng = np.random.default_rng([seed, *name.encode()])
        d = prod(shape)
        return cls(tuple(shape), m, rng.integers(0, m, d), rng.choice([-1, 1], d))

    @property
    def shape(self):
        return self.of

    @property
    def size(self):
        return self.m

    def tables(self):
        return {"h": self.h, "s": self.s}

    def apply(self, x):
        x = self._check(x)
        rows = x.reshape(*x.shape[: x.ndim - len(self.of)], prod(self.of))
        return rows @ (self.s[:, None] * np.equal.outer(self.h, np.arange(self.m))).astype(x.dtype)

    def variance_factor(self):
        return 2 / self.m
