"""What the sketches of this package share: tables by name, a signed scatter, a dense product, fast transforms."""

from math import prod, sqrt

import numpy as np

from sdi import LinearSketch
from sdi.sketch import bits

LONG = 1 << 11  # entries from which on rows are scattered one by one
MOST = 1 << 22  # entries of a dense table


def signs_of(words):
    """+1 or -1 by the lowest bit of each word."""
    return (1 - 2 * (words & np.uint64(1)).astype(np.int8)).astype(np.int8)


def uniform(count, *words):
    """`count` numbers strictly between 0 and 1."""
    return ((bits(count, *words) >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52


def normal(count, *words):
    """`count` standard normal numbers, by Box and Muller's pairs."""
    u, v = uniform(2 * count, *words, "normal").reshape(2, count)
    return np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)


def scatter(rows, h, s, m):
    """y[n, h(i)] += s(i) x[n, i] for rows (n, d)."""
    if not len(rows):
        return np.zeros((0, m))
    h, signed = np.asarray(h, dtype=np.int64), rows * s
    if rows.shape[1] > LONG:
        return np.array([np.bincount(h, row, m) for row in signed])
    places = h + m * np.arange(len(rows))[:, None]
    return np.bincount(places.ravel(), signed.ravel(), m * len(rows)).reshape(len(rows), m)


def power_of_two(d):
    """The smallest power of two that is at least d."""
    return 1 << (d - 1).bit_length()


def walsh(rows):
    """The unnormalised Walsh-Hadamard transform of rows (n, a power of two)."""
    n, p = rows.shape
    half = 1
    while half < p:
        pairs = rows.reshape(n, p // (2 * half), 2, half)
        rows = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2).reshape(n, p)
        half *= 2
    return rows


class Table(LinearSketch):
    """Shape, m and tables by name. A subclass says `make`, which draws the tables, and `rows`, which maps (n, D)."""

    factor = 2.0  # the claim is this, over the size

    def __init__(self, shape, m, tables):
        self._shape, self.m, self.t = tuple(int(k) for k in shape), int(m), tables

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        shape = tuple(int(k) for k in shape)
        return cls(shape, m, cls.make(shape, int(m), seed, name))

    @property
    def shape(self):
        return self._shape

    @property
    def size(self):
        return self.m

    def tables(self):
        return self.t

    def apply(self, x):
        x = self._check(x)
        lead = x.shape[: x.ndim - len(self.shape)]
        flat = x.reshape(prod(lead), prod(self.shape)).astype(np.float64)
        return self.rows(flat).reshape(*lead, self.size)

    def variance_factor(self):
        return self.factor / self.size


class Count(Table):
    """CountSketch of the flattened parameter. A subclass changes where the tables come from, or how they are used."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d, words = prod(shape), cls.words(shape, seed, name)
        return {"h": cls.buckets(d, m, *words), "s": cls.signs(d, *words)}

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, name)

    @classmethod
    def buckets(cls, d, m, *words):
        return (bits(d, *words, "h") % np.uint64(m)).astype(np.int64)

    @classmethod
    def signs(cls, d, *words):
        return signs_of(bits(d, *words, "s"))

    def rows(self, x):
        return scatter(x, self.t["h"], self.t["s"], self.size)


class Dense(Table):
    """A matrix (m, D) over sqrt(m), from `matrix`; too large ones are refused."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if m * prod(shape) > MOST:
            raise ValueError(f"m must be at most {MOST // prod(shape)} for shape {shape} and a dense table, got {m}")
        return {"table": cls.matrix(m, prod(shape), seed, name)}

    @classmethod
    def matrix(cls, m, d, seed, name):
        return normal(m * d, seed, name).reshape(m, d)

    def rows(self, x):
        return x @ self.t["table"].T / sqrt(self.m)


class Sides(Table):
    """TensorSketch: h(i) + h'(j) mod m and s(i) s'(j), a vector as one column; by definition, not by FFT."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d1, d2 = shape if len(shape) == 2 else (shape[0], 1)
        tables = {}
        for side, d in (("rows", d1), ("cols", d2)):
            words = cls.words((d1, d2), seed, name, side)
            tables[f"{side}.h"] = (bits(d, *words, "h") % np.uint64(m)).astype(np.int64)
            tables[f"{side}.s"] = signs_of(bits(d, *words, "s"))
        return tables

    @classmethod
    def words(cls, sides, seed, name, side):
        return (seed, name, side)

    def places(self):
        return (self.t["rows.h"][:, None] + self.t["cols.h"]) % self.m

    def rows(self, x):
        signs = self.t["rows.s"][:, None] * self.t["cols.s"]
        return scatter(x, self.places().ravel(), signs.ravel(), self.m)

    def variance_factor(self):
        return (2 if self.m % 2 else 4) / self.m**2 + 6 / self.m


class Hadamard(Table):
    """Signs, then the Walsh-Hadamard transform of the flattened parameter, then m of its entries with replacement."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        at = (bits(m, seed, name, "at") % np.uint64(power_of_two(d))).astype(np.int64)
        return {"s": signs_of(bits(d, seed, name, "s")), "at": at}

    def scale(self):
        return 1 / sqrt(self.m)

    def rows(self, x):
        p = power_of_two(x.shape[1])
        y = np.zeros((len(x), p))
        y[:, : x.shape[1]] = x * self.t["s"]
        return walsh(y)[:, self.t["at"]] * self.scale()
