"""Right: sparse and hashed sketches, whose mean and claimed variance are true."""

import random
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod, sqrt

import numpy as np

from sdi.sketch import TensorSketch, bits
from third_sceptic.base import Count, Sides, Table, scatter, signs_of
from third_sceptic.broken_twins import WithTwin

MERSENNE = (1 << 31) - 1


class ThreeThirds(Table):
    """Each entry once in each third of the buckets, over sqrt(3): a mean of three with 2 / (m / 3), so 2 / m."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if m % 3:
            raise ValueError(f"m must be a multiple of 3, got {m}")
        d, third = prod(shape), m // 3
        h = (bits(3 * d, seed, name, "h") % np.uint64(third)).astype(np.int64).reshape(3, d)
        return {"h": h + third * np.arange(3)[:, None], "s": signs_of(bits(3 * d, seed, name, "s")).reshape(3, d)}

    def rows(self, x):
        return sum(scatter(x, h, s, self.m) for h, s in zip(self.t["h"], self.t["s"], strict=True)) / sqrt(3)


class BucketsMayRepeat(Table):
    """Five signed buckets for each entry, repeats allowed, over sqrt(5): single entries have 8 / (5 m), all 2 / m."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = 5 * prod(shape)
        h = (bits(d, seed, name, "h") % np.uint64(m)).astype(np.int32)
        return {"h": h.reshape(5, -1), "s": signs_of(bits(d, seed, name, "s")).reshape(5, -1)}

    def rows(self, x):
        return sum(scatter(x, h, s, self.m) for h, s in zip(self.t["h"], self.t["s"], strict=True)) / sqrt(5)


class BalancedBuckets(Count):
    """A permutation dealt into buckets like cards: two entries meet less often than by chance; the claim is exact."""

    @classmethod
    def buckets(cls, d, m, *words):
        return np.argsort(bits(d, *words, "h"), kind="stable") % m

    def variance_factor(self):
        d = prod(self.shape)
        full, more = divmod(d, self.m)
        pairs = more * (full + 1) * full + (self.m - more) * full * (full - 1)
        return 2 * pairs / (d * (d - 1)) if d > 1 else 0.0


class FourthsTrueClaim(Count):
    """Each fourth of the entries has its own fourth of the buckets; the claim, 8 / m, is that of one fourth."""

    factor = 8.0

    @classmethod
    def make(cls, shape, m, seed, name):
        if m % 4:
            raise ValueError(f"m must be a multiple of 4, got {m}")
        tables, d = super().make(shape, m, seed, name), prod(shape)
        tables["h"] = tables["h"] % (m // 4) + (m // 4) * (4 * np.arange(d) // d)
        return tables


class NarrowTables(Count):
    """CountSketch with buckets in as few bytes as hold m - 1, and signs as packed bits."""

    @classmethod
    def buckets(cls, d, m, *words):
        return super().buckets(d, m, *words).astype(np.min_scalar_type(m - 1))

    @classmethod
    def signs(cls, d, *words):
        return np.packbits((bits(d, *words, "s") & np.uint64(1)).astype(np.uint8))

    def rows(self, x):
        minus = np.unpackbits(self.t["s"], count=x.shape[1]).astype(np.float64)
        return scatter(x, self.t["h"], 1 - 2 * minus, self.m)


class MultiplyShift(Count):
    """Powers of two only: the top bits of a i + b mod 2^64, which is 2-wise independent; signs of a table."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if m < 2 or m & (m - 1):
            raise ValueError(f"m must be a power of two of at least 2, got {m}")
        return {"ab": bits(2, seed, name, "ab"), "s": cls.signs(prod(shape), seed, name)}

    def rows(self, x):
        a, b = self.t["ab"]
        h = (np.arange(x.shape[1], dtype=np.uint64) * a + b) >> np.uint64(65 - self.m.bit_length())
        return scatter(x, h.astype(np.int64), self.t["s"], self.m)


class Polynomials(Count):
    """Six coefficients modulo 2^31 - 1: degree 1 for buckets, degree 3 for signs; not fair by less than m / 2^31."""

    @classmethod
    def make(cls, shape, m, seed, name):
        c = (bits(6, seed, name) % np.uint64(MERSENNE)).astype(np.int64)
        return {"c": c}

    def rows(self, x):
        h, s = (self._values(c, x.shape[1]) for c in (self.t["c"][:2], self.t["c"][2:]))
        return scatter(x, h % self.m, 1 - 2 * (s & 1), self.m)

    @staticmethod
    def _values(coefficients, d):
        i, value = np.arange(d, dtype=np.int64), np.zeros(d, dtype=np.int64)
        for c in coefficients:
            value = (value * i + c) % MERSENNE
        return value


class MersenneTwister(Count):
    """Tables by Python's random.Random, seeded with a text, which does not depend on the process."""

    @classmethod
    def make(cls, shape, m, seed, name):
        stream, d = random.Random(f"{seed}|{name}|{m}"), prod(shape)
        words = np.frombuffer(stream.randbytes(16 * d), dtype="<u8").reshape(2, d)
        return {"h": (words[0] % np.uint64(m)).astype(np.int64), "s": signs_of(words[1])}


class TensorByFourier(Sides):
    """TensorSketch with its own apply_outer by FFT, for every m, odd ones included."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        a, b = (self._side(x, side) for x, side in ((u, "rows"), (v, "cols")))
        return np.fft.irfft((np.fft.rfft(a) * np.fft.rfft(b)).sum(axis=-2), n=self.m)

    def _side(self, x, side):
        flat = x.reshape(prod(x.shape[:-1]), x.shape[-1]).astype(np.float64)
        return scatter(flat, self.t[f"{side}.h"], self.t[f"{side}.s"], self.m).reshape(*x.shape[:-1], self.m)


class RightTwin(WithTwin):
    """CountSketch of the flattened parameter with a right twin for torch."""


class ListsAll(Count):
    """CountSketch of the flattened parameter which lists all of its draws, the last ones first."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        for s, h in product(product((1, -1), repeat=d), product(range(m - 1, -1, -1), repeat=d)):
            yield Fraction(1, (2 * m) ** d), cls(shape, m, {"h": np.array(h), "s": np.array(s)})


class ByKind(Count):
    """Draws the shipped TensorSketch for matrices and a Count for vectors: draw need not return its own class."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return (TensorSketch if len(shape) == 2 else Count).draw(shape, m, seed=seed, name=name)


class Duck:
    """CountSketch that derives from nothing: every member of the protocol written by hand, tables made on demand."""

    def __init__(self, shape, m, seed, name):
        self.shape, self.size, self._key = tuple(shape), m, (seed, name)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, m, seed, name)

    @cached_property
    def _words(self):
        return bits(prod(self.shape), *self._key)

    def tables(self):
        words = self._words
        return {"h": ((words >> np.uint64(1)) % np.uint64(self.size)).astype(np.int64), "s": signs_of(words)}

    @property
    def nbytes(self):
        return sum(table.nbytes for table in self.tables().values())

    def apply(self, x):
        x, t = np.asarray(x), self.tables()
        lead = x.shape[: x.ndim - len(self.shape)]
        flat = x.reshape(prod(lead), prod(self.shape)).astype(np.float64)
        return scatter(flat, t["h"], t["s"], self.size).reshape(*lead, self.size)

    def apply_outer(self, u, v):
        u, v = np.asarray(u), np.asarray(v)
        return self.apply((u.swapaxes(-1, -2) @ v).reshape(*u.shape[:-2], *self.shape))

    def variance_factor(self):
        return 2 / self.size


class ScipyMatrix(Count):
    """CountSketch as a sparse matrix of SciPy, over sums of rows in any order."""

    def rows(self, x):
        from scipy.sparse import csr_array

        d = x.shape[1]
        matrix = csr_array((np.asarray(self.t["s"], dtype=np.float64), (np.arange(d), self.t["h"])), shape=(d, self.m))
        return np.asarray(x @ matrix).reshape(len(x), self.m)


class KeepsIfItFits(Count):
    """Keeps parameters of up to m entries itself, with a sign for each and in another order; hashes the others."""

    keeps_small = False

    @classmethod
    def buckets(cls, d, m, *words):
        return np.argsort(bits(d, *words, "h"), kind="stable") if d <= m else super().buckets(d, m, *words)

    @property
    def size(self):
        return min(self.m, prod(self.shape))

    def variance_factor(self):
        return 0.0 if prod(self.shape) <= self.m else 2 / self.m


class SignedWhole(Table):
    """An isometry: all entries, each with a sign, whatever m is; there is no error."""

    @classmethod
    def make(cls, shape, m, seed, name):
        return {"s": signs_of(bits(prod(shape), seed, name))}

    @property
    def size(self):
        return prod(self.shape)

    def rows(self, x):
        return x * self.t["s"]

    def variance_factor(self):
        return 0.0


class SampleTrueClaim(Table):
    """Entries sampled with replacement times sqrt(D / m), with signs; the claim, (D - 1) / m, is that of one entry."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        if d > 8 * m:
            raise ValueError(f"m must be at least an eighth of the {d} entries, got {m}")
        at = (bits(m, seed, name, "at") % np.uint64(d)).astype(np.int64)
        return {"at": at, "s": signs_of(bits(m, seed, name, "s"))}

    def rows(self, x):
        return x[:, self.t["at"]] * self.t["s"] * sqrt(x.shape[1] / self.m)

    def variance_factor(self):
        return (prod(self.shape) - 1) / self.m
