"""Right sketches that the others are made from by one change: of entries, of rows and columns, and dense ones."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from sdi import LinearSketch
from sdi.sketch import bits

DENSE = 1 << 22  # numbers of a dense table, from which on it is refused


def buckets(d, m, *words):
    return (bits(d, *words, "h") % np.uint64(m)).astype(np.int64)


def signs(d, *words):
    return 1 - 2 * (bits(d, *words, "s") % np.uint64(2)).astype(np.int64)


def uniform(count, *words):
    return (bits(count, *words) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def pile(flat, h, s, m):
    """y[..., h] += s * flat."""
    signed = flat * s
    y = np.zeros((*flat.shape[:-1], m), dtype=np.result_type(signed, np.float32))
    rows, out = signed.reshape(-1, signed.shape[-1]), y.reshape(-1, m)
    if rows.shape[1] <= 2048:  # all arrays at once
        places = h + m * np.arange(len(rows))[:, None]
        out[...] = np.bincount(places.ravel(), rows.ravel(), m * len(rows)).reshape(out.shape)
        return y
    for k in range(len(rows)):
        out[k] = np.bincount(h, rows[k], m)
    return y


class Entries(LinearSketch):
    """Every entry has a bucket and a sign of its own."""

    def __init__(self, shape, m, h, s):
        self._shape, self.m, self.h, self.s = tuple(shape), m, h, s

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        words = cls.words(seed, name)
        d = prod(shape)
        return cls(shape, m, cls.buckets(d, m, *words), cls.signs(d, *words))

    @classmethod
    def words(cls, seed, name):
        return seed, name

    @classmethod
    def buckets(cls, d, m, *words):
        return buckets(d, m, *words)

    @classmethod
    def signs(cls, d, *words):
        return signs(d, *words)

    @property
    def shape(self):
        return self._shape

    @property
    def size(self):
        return self.m

    def tables(self):
        return {"h": self.h, "s": self.s}

    def flat(self, x):
        x = self._check(x)
        return x.reshape(*x.shape[: x.ndim - len(self.shape)], prod(self.shape))

    def apply(self, x):
        return pile(self.flat(x), self.h, self.s, self.m)

    def variance_factor(self):
        return 2 / self.m


class Sides(LinearSketch):
    """Rows and columns have buckets and signs; an entry has their sum and their product. A vector is one column."""

    def __init__(self, shape, m, rows, cols):
        self._shape, self.m, self.rows, self.cols = tuple(shape), m, rows, cols

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d, e = shape if len(shape) == 2 else (shape[0], 1)
        rows, cols = ((buckets(k, m, seed, name, w), signs(k, seed, name, w)) for k, w in ((d, "rows"), (e, "cols")))
        return cls(shape, m, rows, cols)

    @property
    def shape(self):
        return self._shape

    @property
    def size(self):
        return self.m

    def tables(self):
        return {"h": self.rows[0], "s": self.rows[1], "g": self.cols[0], "r": self.cols[1]}

    def meet(self, h, g):
        return (h + g) % self.m

    def sign(self, s, r):
        return s * r

    def apply(self, x):
        x = self._check(x)
        flat = x.reshape(*x.shape[: x.ndim - len(self.shape)], prod(self.shape))
        h = self.meet(self.rows[0][:, None], self.cols[0][None]).ravel()
        s = self.sign(self.rows[1][:, None], self.cols[1][None]).ravel()
        return pile(flat, h, s, self.m)

    def variance_factor(self):
        return 4 / self.m**2 + 6 / self.m


class Dense(LinearSketch):
    """A matrix (m, d) of random numbers with mean 0 and variance 1 / m: Rademacher, unless `table` says otherwise."""

    def __init__(self, shape, m, S):
        self._shape, self.m, self.S = tuple(shape), m, S

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        if m * d > DENSE:
            raise ValueError(f"a table of {m} times {d} numbers is too large; at most {DENSE}")
        return cls(shape, m, cls.table(m, d, seed, name))

    @classmethod
    def table(cls, m, d, *words):
        return signs(m * d, *words).reshape(m, d) / sqrt(m)

    @property
    def shape(self):
        return self._shape

    @property
    def size(self):
        return len(self.S)

    def tables(self):
        return {"S": self.S}

    def apply(self, x):
        x = self._check(x)
        return x.reshape(*x.shape[: x.ndim - len(self.shape)], prod(self.shape)) @ self.S.T

    def variance_factor(self):
        return 2 / self.m
