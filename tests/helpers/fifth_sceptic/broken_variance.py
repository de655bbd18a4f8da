"""The variance is larger than the claim."""

from math import prod, sqrt

import numpy as np

from fifth_sceptic.base import Dense, Flat, Rows, buckets, parity, signs, walsh
from sdi.sketch import bits


class ByteBuckets(Flat):
    """A bucket is a byte modulo m: with m > 256 most buckets stay empty, with m = 200 some are twice as full."""

    @classmethod
    def h_of(cls, shape, m, seed, name):
        d = prod(shape)
        raw = bits(-(-d // 8), seed, name, "h").astype("<u8").view(np.uint8)[:d]
        return raw.astype(np.int64) % m


class TensorClaimsCount(Flat):
    """TensorSketch's buckets h(i) + h'(j) and signs s(i) s'(j), with the claim of a CountSketch, 2 / m."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        sides = shape[0], prod(shape[1:])
        h, h2 = (buckets(d, m, seed, name, "h", k) for k, d in enumerate(sides))
        s, s2 = (signs(d, seed, name, "s", k) for k, d in enumerate(sides))
        return cls(shape, m, ((h[:, None] + h2) % m).ravel(), (s[:, None] * s2).ravel())


class HadamardReplacement(Rows):
    """Takes rows of a Hadamard transform with replacement, and claims what is true without replacement."""

    def __init__(self, shape, s, at):
        self._shape, self.s, self.at = tuple(shape), s, at
        self.p = 1 << (self.count - 1).bit_length()

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        p = 1 << (d - 1).bit_length()
        return cls(shape, signs(d, seed, name, "s"), buckets(min(m, p), p, seed, name, "at"))

    @property
    def size(self):
        return len(self.at)

    def tables(self):
        return {"s": self.s, "at": self.at}

    def rows(self, x):
        return walsh(x * self.s)[0][:, self.at] / sqrt(self.size)

    def variance_factor(self):
        return (self.p - self.size) / max(self.p - 1, 1) * 2 / self.size


class ParitySigns(Flat):
    """Signs (-1)^(<a, i> + b) for a random word a: pairs are independent, fours are not: flat gradients vary more."""

    @classmethod
    def s_of(cls, shape, seed, name):
        a, b = bits(2, seed, name, "s")
        i = np.arange(prod(shape), dtype=np.uint64)
        return (1 - 2 * parity(i & a)) * (1 - 2 * int(b & np.uint64(1)))


class BlocksClaimWhole(Flat):
    """Each fourth row has a quarter of the buckets for itself, with the claim of the whole: 2 / m in place of 8 / m."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 4:
            raise ValueError(f"m must be at least 4, got {m}")
        part = m // 4
        block = np.repeat(np.arange(shape[0]) % 4, prod(shape[1:]))
        h = buckets(prod(shape), part, seed, name, "h") + part * block
        return cls(shape, 4 * part, h, cls.s_of(shape, seed, name))


class RoundedDownClaim(Flat):
    """Rounds m down to a multiple of 8 and claims 2 / m for the m that was asked for: too small at 15, 23, 100."""

    asked: int

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m - m % 8 if m >= 8 else m, seed=seed, name=name)
        made.asked = m
        return made

    def variance_factor(self):
        return 2 / self.asked


class SmallPrime(Flat):
    """Buckets (a i + b) mod 1009 mod m: entries 1009 apart always fall together, in parameters larger than that."""

    @classmethod
    def h_of(cls, shape, m, seed, name):
        a, b = (int(word) for word in bits(2, seed, name, "h"))
        i = np.arange(prod(shape), dtype=np.int64)
        return ((1 + a % 1008) * i + b % 1009) % 1009 % m


class Circulant(Dense):
    """The rows are one row of signs, rotated: for a flat gradient all give the same number, so m does not help."""

    @classmethod
    def table_of(cls, shape, m, seed, name):
        d = prod(shape)
        return signs(d, seed, name)[(np.arange(d) + np.arange(m)[:, None]) % d]


SKETCHES = [
    ("ByteBuckets", ByteBuckets, "broken"),
    ("TensorClaimsCount", TensorClaimsCount, "broken"),
    ("HadamardReplacement", HadamardReplacement, "broken"),
    ("ParitySigns", ParitySigns, "broken"),
    ("BlocksClaimWhole", BlocksClaimWhole, "broken"),
    ("RoundedDownClaim", RoundedDownClaim, "broken"),
    ("SmallPrime", SmallPrime, "broken"),
    ("Circulant", Circulant, "broken"),
]
