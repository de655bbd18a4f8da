"""Broken: unbiased, but the claimed variance factor is too small for some pairs, sizes or m."""

from math import prod, sqrt

import numpy as np

from sdi.sketch import bits
from third_sceptic.base import (
    MOST,
    Count,
    Dense,
    Hadamard,
    Sides,
    Table,
    normal,
    power_of_two,
    scatter,
    signs_of,
    uniform,
)


class SampleClaimsTwo(Table):
    """Entries sampled with replacement, which claim 2 / m as if hashed; e_i has (D - 1) / m: 23 times at D = 48."""

    @classmethod
    def make(cls, shape, m, seed, name):
        return {"at": (bits(m, seed, name) % np.uint64(prod(shape))).astype(np.int64)}

    def rows(self, x):
        return x[:, self.t["at"]] * sqrt(x.shape[1] / self.m)


class TwoSidedClaimsTwo(Table):
    """P X Q^T with normal P and Q of sqrt(m) rows claims 2 / m; flat matrices have 4 / sqrt(m) + 4 / m."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d1, d2 = shape if len(shape) == 2 else (shape[0], 1)
        k1, k2 = (int(sqrt(m)), int(sqrt(m))) if d2 > 1 else (m, 1)
        if m * d1 > MOST:
            raise ValueError(f"m must be at most {MOST // d1} for shape {shape}, got {m}")
        return {
            "p": normal(k1 * d1, seed, name, "p").reshape(k1, d1) / sqrt(k1),
            "q": normal(k2 * d2, seed, name, "q").reshape(k2, d2) / sqrt(k2) if d2 > 1 else np.ones((1, 1)),
        }

    @property
    def size(self):
        return len(self.t["p"]) * len(self.t["q"])

    def rows(self, x):
        p, q = self.t["p"], self.t["q"]
        return (p @ x.reshape(len(x), p.shape[1], q.shape[1]) @ q.T).reshape(len(x), self.size)


class AntitheticRows(Dense):
    """Every second row is the negative of the one before: half of the numbers say nothing. The variance is 4 / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        half = normal(-(-m // 2) * d, seed, name).reshape(-1, d)
        return np.stack([half, -half], axis=1).reshape(-1, d)[:m]


class FourthsClaimTwo(Count):
    """Each fourth of the entries has its own fourth of the buckets: up to 8 / m within one, 2 / m for flat arrays."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if m % 4:
            raise ValueError(f"m must be a multiple of 4, got {m}")
        tables = super().make(shape, m, seed, name)
        d = prod(shape)
        tables["h"] = tables["h"] % (m // 4) + (m // 4) * (4 * np.arange(d) // d)
        return tables


class MultipliesIndex(Count):
    """h(i) = a i + b mod m with odd a: i and i + m always meet. The variance of e_0 + e_m is that of one bucket."""

    @classmethod
    def buckets(cls, d, m, *words):
        a, b = (int(k) for k in bits(2, *words, "h"))
        return np.array([((a | 1) * i + b) % m for i in range(m)])[np.arange(d) % m]


class WalshSigns(Count):
    """Signs are a row of a Hadamard matrix, so only 2-wise independent: products of four can have one sign. Flat
    arrays have about D / 2 times the variance of 2 / m."""

    @classmethod
    def signs(cls, d, *words):
        a, b = bits(2, *words, "s")
        common = np.arange(d, dtype=np.uint64) & a
        for shift in (32, 16, 8, 4, 2, 1):
            common = common ^ (common >> np.uint64(shift))
        return signs_of(common ^ b)


class CirculantWithoutFlips(Dense):
    """Rows are shifts of one normal vector, columns have no signs: a flat array gives m equal numbers, variance 2."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        g = normal(max(m, d), seed, name)
        return g[(np.arange(d) - np.arange(m)[:, None]) % len(g)]


class BucketsInBytes(Count):
    """Buckets are bytes: of m = 2,048 only 256 are ever used, and the variance is 8 times the claim; fine up to 256."""

    @classmethod
    def buckets(cls, d, m, *words):
        if m <= 256:
            return super().buckets(d, m, *words)
        return super().buckets(d, m, *words).astype(np.uint8).astype(np.int64)


class UniformInFloat16(Count):
    """floor(m u), u in float16: above m = 2,048 many buckets stay empty; at 8,192 the variance is 2.7 times 2 / m."""

    @classmethod
    def buckets(cls, d, m, *words):
        u = np.minimum(uniform(d, *words, "h"), 0.9995).astype(np.float16)
        return np.minimum((u.astype(np.float64) * m).astype(np.int64), m - 1)


class MaskOfBits(Count):
    """Buckets are bits & (m - 1), right only for powers of two: at m = 17 there are two buckets, 8 times the claim."""

    @classmethod
    def buckets(cls, d, m, *words):
        return (bits(d, *words, "h") & np.uint64(m - 1)).astype(np.int64)


class ProductOfBuckets(Sides):
    """TensorSketch with h h' mod m in place of h + h': bucket 0 gets far too many; 1.5 to 2 times the claim."""

    def places(self):
        return (self.t["rows.h"][:, None] * self.t["cols.h"]) % self.m


class VerySparseClaimsTwo(Dense):
    """Entries are +-sqrt(q) with probability 1 / q each, q = sqrt(D) + 4, as Li's; single entries have (q - 1) / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        q = sqrt(d) + 4
        chosen = uniform(m * d, seed, name, "at") < 1 / q
        return (chosen * sqrt(q) * signs_of(bits(m * d, seed, name, "s"))).reshape(m, d)


class LaplaceClaimsTwo(Dense):
    """Laplace entries have kurtosis 6: single entries have a variance of 5 / m, not 2 / m; flat arrays have 2 / m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        u = uniform(m * d, seed, name) - 0.5
        return (-np.sign(u) * np.log1p(-2 * np.abs(u)) / sqrt(2)).reshape(m, d)


class RoundsDownClaimsAll(Count):
    """Uses the power of two below m, but claims 2 / m: at m = 31 it has 16 buckets and 1.94 times the claim."""

    @property
    def size(self):
        return 1 << (self.m.bit_length() - 1)

    @classmethod
    def buckets(cls, d, m, *words):
        return super().buckets(d, 1 << (m.bit_length() - 1), *words)

    def variance_factor(self):
        return 2 / self.m


class FourBucketsClaimQuarter(Table):
    """Four signed buckets for each entry, claimed to have a quarter of the variance, 1 / (2 m); it is 2 / m."""

    factor = 0.5

    @classmethod
    def make(cls, shape, m, seed, name):
        d = 4 * prod(shape)
        h = (bits(d, seed, name, "h") % np.uint64(m)).astype(np.int64)
        return {"h": h.reshape(4, -1), "s": signs_of(bits(d, seed, name, "s")).reshape(4, -1)}

    def rows(self, x):
        return sum(scatter(x, h, s, self.m) for h, s in zip(self.t["h"], self.t["s"], strict=True)) / 2


class ReplacedClaimsWithout(Hadamard):
    """Frequencies with replacement, but the claim has (N - m) / (N - 1), which holds without: half at N = 2 m."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if m >= power_of_two(prod(shape)):
            raise ValueError(f"m must be less than the padded length {power_of_two(prod(shape))}, got {m}")
        return super().make(shape, m, seed, name)

    def variance_factor(self):
        n = power_of_two(prod(self.shape))
        return (n - self.m) / (n - 1) * 2 / self.m


class BucketsOfRows(Sides):
    """The bucket of (i, j) is that of its row: entries of one row meet always. A flat row has a variance near 2."""

    def places(self):
        return np.broadcast_to(self.t["rows.h"][:, None], (len(self.t["rows.h"]), len(self.t["cols.h"])))


class TensorClaimsCount(Sides):
    """TensorSketch which claims CountSketch's 2 / m; flat matrices come to 6 / m."""

    def variance_factor(self):
        return 2 / self.m


class ClaimOfOrthogonalPairs(Dense):
    """A Gaussian projection which claims 1 / m, true for orthogonal x and y only; for x = y it is 2 / m."""

    factor = 1.0


class ClipsBuckets(Count):
    """Buckets are drawn below 9 m / 8 and clipped to the last, which gets a ninth: at m = 2,048, 25 times 2 / m."""

    @classmethod
    def buckets(cls, d, m, *words):
        return np.minimum((bits(d, *words, "h") % np.uint64(m + m // 8)).astype(np.int64), m - 1)


class RandomGain(Count):
    """Each draw is multiplied by a random gain of mean square 1: its variance, 0.2, is not in the claim of 2 / m."""

    @classmethod
    def make(cls, shape, m, seed, name):
        gain = np.sqrt(uniform(1, seed, name, "gain") * 1.55 + 0.225)
        return {**super().make(shape, m, seed, name), "gain": gain}

    def rows(self, x):
        return super().rows(x) * self.t["gain"]


class CirculantClaimsTwo(Dense):
    """Shifts of one vector of signs, columns with signs of their own: the rows are correlated, and flat arrays have
    2 / m + 2 / D, 4 / m where D is near m."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        g = normal(max(m, d), seed, name, "g")
        return g[(np.arange(d) - np.arange(m)[:, None]) % len(g)] * signs_of(bits(d, seed, name, "s"))
