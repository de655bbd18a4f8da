"""Two right sketches that most classes of this folder change in one place: a CountSketch and a dense projection."""

from math import prod, sqrt

import numpy as np

from sdi import LinearSketch
from sdi.sketch import bits

MOST = 1 << 23  # entries of a dense table


def signs(count, *words):
    return (1 - 2 * (bits(count, *words) & np.uint64(1)).astype(np.int64)).astype(np.int64)


def buckets(count, m, *words):
    return (bits(count, *words) % np.uint64(m)).astype(np.int64)


def parity(x):
    for shift in (32, 16, 8, 4, 2, 1):
        x = x ^ (x >> np.uint64(shift))
    return (x & np.uint64(1)).astype(np.int64)


def walsh(x):
    """H x for rows of x padded to a power of two, and that power."""
    p = 1 << (x.shape[-1] - 1).bit_length()
    y, half = np.pad(x, [(0, 0), (0, p - x.shape[-1])]), 1
    while half < p:
        y = y.reshape(len(x), -1, 2, half)
        y = np.stack([y[:, :, 0] + y[:, :, 1], y[:, :, 0] - y[:, :, 1]], axis=2).reshape(len(x), p)
        half *= 2
    return y, p


class Rows(LinearSketch):
    """Works on float64 rows (n, D): a class gives `rows`, its tables and its size."""

    _shape: tuple

    @property
    def shape(self):
        return self._shape

    @property
    def count(self):
        return prod(self._shape)

    def flat(self, x):
        x = self._check(x)
        return x.shape[: x.ndim - len(self._shape)], x.reshape(-1, self.count).astype(np.float64)

    def apply(self, x):
        lead, rows = self.flat(x)
        return self.rows(rows).reshape(*lead, self.size)


class Flat(Rows):
    """y[h(i)] += s(i) x(i), over the flattened parameter: right, with a claim of 2 / m."""

    def __init__(self, shape, m, h, s):
        self._shape, self.m, self.h, self.s = tuple(shape), int(m), np.asarray(h), np.asarray(s)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, m, cls.h_of(shape, m, seed, name), cls.s_of(shape, seed, name))

    @classmethod
    def h_of(cls, shape, m, seed, name):
        return buckets(prod(shape), m, seed, name, "h")

    @classmethod
    def s_of(cls, shape, seed, name):
        return signs(prod(shape), seed, name, "s")

    @property
    def size(self):
        return self.m

    def tables(self):
        return {"h": self.h, "s": self.s}

    def rows(self, x):
        x = x * self.s
        if self.count > 2048:
            return np.array([np.bincount(self.h, row, self.size) for row in x]).reshape(len(x), self.size)
        places = self.h + self.size * np.arange(len(x))[:, None]
        return np.bincount(places.ravel(), x.ravel(), self.size * len(x)).reshape(len(x), self.size)

    def variance_factor(self):
        return 2 / self.size


class Dense(Rows):
    """y = Z x / sqrt(m) with a table Z (m, D): right for independent entries of mean 0, variance 1, kurtosis <= 3."""

    def __init__(self, shape, table):
        self._shape, self.table = tuple(shape), table

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m * prod(shape) > MOST:
            raise ValueError(f"m={m} at shape {tuple(shape)} needs a table of more than {MOST} entries")
        return cls(shape, cls.table_of(tuple(shape), m, seed, name))

    @classmethod
    def table_of(cls, shape, m, seed, name):
        return signs(m * prod(shape), seed, name, "z").reshape(m, prod(shape))

    @property
    def size(self):
        return len(self.table)

    def tables(self):
        return {"table": self.table}

    def rows(self, x):
        return x @ self.table.T.astype(np.float64) / sqrt(self.size)

    def variance_factor(self):
        return 2 / self.size


class FlatTwin:
    """What `to_torch` of a Flat sketch gives: right."""

    def __init__(self, sketch, device, dtype):
        import torch

        self.shape, self.size, self.dtype = sketch.shape, sketch.size, dtype
        self.h = torch.as_tensor(sketch.h, device=device, dtype=torch.int64)
        self.s = torch.as_tensor(sketch.s, device=device, dtype=dtype)

    def apply(self, G):
        flat = G.reshape(len(G), self.s.numel()) * self.s
        return G.new_zeros(len(G), self.size).index_add_(1, self.h, flat)

    def apply_outer(self, u, v):
        return self.apply(u.transpose(1, 2) @ v)
