"""Broken: buckets and signs that are not what they should be."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from new_sceptic.bases import Entries, Sides, buckets, signs, uniform
from sdi.sketch import bits


class SignIsBucketParity(Entries):
    """One word gives both: at even m the sign is that of the bucket."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        word = bits(prod(shape), seed, name)
        h, s = (word % np.uint64(m)).astype(np.int64), 1 - 2 * (word & np.uint64(1)).astype(np.int64)
        return cls(shape, m, h, s)


class HalfPrecisionBucket(Entries):
    """floor(u m) with u in half precision: at wide m some buckets are never hit."""

    @classmethod
    def buckets(cls, d, m, *words):
        u = uniform(d, *words, "h").astype(np.float16).astype(np.float64)
        return np.minimum((u * m).astype(np.int64), m - 1)


class ByteBuckets(Entries):
    """Buckets kept in a byte."""

    @classmethod
    def buckets(cls, d, m, *words):
        return buckets(d, m, *words).astype(np.uint8).astype(np.int64)


class RoundedBuckets(Entries):
    """round(u (m - 1)): the first and the last are half as likely."""

    @classmethod
    def buckets(cls, d, m, *words):
        return np.rint(uniform(d, *words, "h") * (m - 1)).astype(np.int64)


class BucketsFromOne(Entries):
    """Bucket 0 is never used."""

    @classmethod
    def buckets(cls, d, m, *words):
        return 1 + buckets(d, m - 1, *words) if m > 1 else np.zeros(d, dtype=np.int64)


class StickyBuckets(Entries):
    """Every second entry lies in its neighbour's bucket."""

    @classmethod
    def buckets(cls, d, m, *words):
        h = buckets(d, m, *words)
        return h[np.arange(d) // 2 * 2]


class ModuloM(Entries):
    """(a i + b) mod m: entries that are m apart always meet."""

    @classmethod
    def buckets(cls, d, m, *words):
        a, b = (int(w) % m for w in bits(2, *words, "h"))
        return (a * np.arange(d) + b) % m


class MultiplyShift(Entries):
    """The high bits of an odd multiple: near entries meet too often."""

    @classmethod
    def buckets(cls, d, m, *words):
        (a,) = bits(1, *words, "h") | np.uint64(1)
        return (((a * np.arange(d, dtype=np.uint64)) >> np.uint64(32)).astype(np.int64) * m) >> 32


class SmallPrime(Entries):
    """A polynomial modulo 257: entries that are 257 apart are one."""

    @classmethod
    def words(cls, seed, name):
        return seed, name

    @classmethod
    def buckets(cls, d, m, *words):
        return buckets(257, m, *words)[np.arange(d) % 257]

    @classmethod
    def signs(cls, d, *words):
        return signs(257, *words)[np.arange(d) % 257]


class WrapAt65536(Entries):
    """Tables of 2^16 numbers, indexed by 16 bits."""

    @classmethod
    def buckets(cls, d, m, *words):
        return buckets(1 << 16, m, *words)[np.arange(d) & 0xFFFF]

    @classmethod
    def signs(cls, d, *words):
        return signs(1 << 16, *words)[np.arange(d) & 0xFFFF]


class SignsOfOneWord(Entries):
    """64 signs from one word, over and over."""

    @classmethod
    def signs(cls, d, *words):
        (word,) = bits(1, *words, "s")
        return 1 - 2 * ((word >> (np.arange(d, dtype=np.uint64) % np.uint64(64))) & np.uint64(1)).astype(np.int64)


class ParitySigns(Entries):
    """The parity of (a and i): independent by twos and threes, not by fours."""

    @classmethod
    def signs(cls, d, *words):
        (word,) = bits(1, *words, "s")
        both = np.arange(d, dtype=np.uint64) & word
        for k in (32, 16, 8, 4, 2, 1):
            both ^= both >> np.uint64(k)
        return 1 - 2 * (both & np.uint64(1)).astype(np.int64)


class BalancedSigns(Entries):
    """As many minus as plus, in random order."""

    @classmethod
    def signs(cls, d, *words):
        order = np.argsort(bits(d, *words, "s"), kind="stable")
        return 1 - 2 * (order % 2)


class OppositePairs(Entries):
    """Every second sign is the opposite of the one before."""

    @classmethod
    def signs(cls, d, *words):
        s = signs(d, *words)
        return s[np.arange(d) // 2 * 2] * (1 - 2 * (np.arange(d) % 2))


class MarkovSigns(Entries):
    """A sign is the one before in 6 of 10 cases."""

    @classmethod
    def signs(cls, d, *words):
        return np.cumprod(np.where(uniform(d, *words, "s") < 0.6, 1, -1))


class MorePlus(Entries):
    """P(+) is 0.53."""

    @classmethod
    def signs(cls, d, *words):
        return np.where(uniform(d, *words, "s") < 0.53, 1, -1)


class SometimesZero(Entries):
    """Signs -1, 0 and 1, scaled to mean square 1: a single entry has variance, which the claim leaves out."""

    @classmethod
    def signs(cls, d, *words):
        return ((bits(d, *words, "s") % np.uint64(3)).astype(np.int64) - 1) * sqrt(1.5)


class NoSigns(Entries):
    """Buckets only."""

    @classmethod
    def signs(cls, d, *words):
        return np.ones(d, dtype=np.int64)


class Contiguous(Entries):
    """Entry i lies in bucket i m / d, always; the claim is that of random buckets."""

    @classmethod
    def buckets(cls, d, m, *words):
        return np.arange(d) * m // d


class RowSigns(Sides):
    """Columns have no signs."""

    def sign(self, s, r):
        return s * np.ones_like(r)


class OneTableForBoth(Sides):
    """Rows and columns share buckets and signs, as far as they go."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d, e = shape if len(shape) == 2 else (shape[0], 1)
        rows, cols = ((buckets(k, m, seed, name), signs(k, seed, name)) for k in (d, e))
        return cls(shape, m, rows, cols)


class ProductOfBuckets(Sides):
    """The bucket is the product, modulo m: 0 is likely."""

    def meet(self, h, g):
        return h * g % self.m


class CutBuckets(Sides):
    """The sum of buckets is cut off at m - 1 and not wrapped."""

    def meet(self, h, g):
        return np.minimum(h + g, self.m - 1)


class SymmetricSquares(Entries):
    """In a square matrix (i, j) and (j, i) share their bucket and sign."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        if len(shape) == 2 and shape[0] == shape[1]:
            i, j = np.indices(shape).reshape(2, -1)
            upper = np.minimum(i, j) * shape[0] + np.maximum(i, j)
            made.h, made.s = made.h[upper], made.s[upper]
        return made


class SharedSignsOfHalves(Entries):
    """Two halves, buckets of their own and one sign for both: their errors go together."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m % 2:
            raise ValueError(f"m must be even, got {m}")
        d = prod(shape)
        h = np.stack([buckets(d, m // 2, seed, name, k) + k * (m // 2) for k in (0, 1)])
        return cls(shape, m, h, signs(d, seed, name))

    def apply(self, x):
        flat = self.flat(x)
        from new_sceptic.bases import pile

        return sum(pile(flat, h, self.s, self.m) for h in self.h) / sqrt(2)
