"""Broken: how buckets and signs are distributed."""

from __future__ import annotations

from math import prod

import numpy as np

from fourth_sceptic.base import Count, Tensor, chance
from sdi.sketch.hashing import bits, draw_buckets, sign_bits


def words(shape, *text):
    """One 64-bit word per entry of the parameter."""
    return bits(prod(shape), *text)


class ByteBuckets(Count):
    """Buckets are made from one byte: above m = 256, most are never used."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        return ((words(shape, seed, name, "h") >> np.uint64(56)) % np.uint64(m)).astype(np.int64)


class OddLastBucketEmpty(Count):
    """Buckets are made in pairs: of an odd m, the last is never used."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        w = words(shape, seed, name, "h")
        pair = 2 * (w % np.uint64(max(m // 2, 1))).astype(np.int64) + (w >> np.uint64(63)).astype(np.int64)
        return np.minimum(pair, m - 1)


class SidesShareTable(Tensor):
    """Rows and columns are hashed with the same words: X[i, j] and X[j, i] always meet, with one sign."""

    @classmethod
    def sides(cls, draw_one, shape, m, seed, name):
        return [draw_one(d, m, "table", seed, name) for d in shape]


class SignBitInsideBucket(Count):
    """The sign is bit 8 of the word whose remainder is the bucket: at m = 512, 1024, 2048 the bucket decides it."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        w = words(shape, seed, name, "h")  # the words of draw_buckets
        return (1 - 2 * (w >> np.uint64(8) & np.uint64(1)).astype(np.int8)).astype(np.int8)


class TailSignsRecycled(Count):
    """64 signs come from a word, and what is left of the entries, D mod 64, gets those of the first word again."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        d = prod(shape)
        return np.resize(sign_bits(64 * max(d // 64, 1), seed, name, "s"), d)


class BucketsRepeat(Count):
    """A table of 4,096 buckets is repeated: entries 4,096 apart always meet, with signs of their own."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        return np.resize(draw_buckets(4096, m, "table", seed, name), prod(shape))


class RollingBuckets(Count):
    """Buckets go round from a random start: entries m apart always meet."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        start = int(bits(1, seed, name, "start")[0] % np.uint64(m))
        return (start + np.arange(prod(shape))) % m


class SegmentPerRow(Count):
    """The row, mod 4, decides which quarter of the buckets is used: entries of a row meet four times as often."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        if len(shape) == 1 or m < 8:
            return super().buckets(shape, m, seed, name)
        quarter = m // 4
        rows = np.arange(prod(shape)) // shape[1]
        return rows % 4 * quarter + (words(shape, seed, name, "h") % np.uint64(quarter)).astype(np.int64)


class StickySigns(Count):
    """A sign is that of its neighbour with probability 0.7, not 0.5."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        flips = chance(words(shape, seed, name, "s")) < 0.3
        flips[0] = bits(1, seed, name, "first")[0] & np.uint64(1)
        return np.cumprod(1 - 2 * flips.astype(np.int8)).astype(np.int8)


class SignFollowsBucket(Count):
    """Signs are fair, but +1 with probability 0.6 in even buckets and 0.4 in odd ones."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        often = np.where(cls.buckets(shape, m, seed, name) % 2, 0.4, 0.6)
        return np.where(chance(words(shape, seed, name, "s")) < often, 1, -1).astype(np.int8)


class BucketZeroIsPadding(Count):
    """Bucket 0 is taken for padding and set to zero: one m-th of the norm is lost."""

    def sums(self, rows):
        y = super().sums(rows)
        nothing = rows.dtype.type(0) * y[:, :1]  # NaN stays NaN
        return np.concatenate([nothing, y[:, 1:]], axis=1)


class BucketsOfCapacity(Count):
    """A bucket holds at most 2 D / m entries, and those that come later are left out."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        h, d = cls.buckets(shape, m, seed, name), prod(shape)
        order = np.argsort(h, kind="stable")
        rank = np.empty(d, dtype=np.int64)
        rank[order] = np.arange(d) - np.searchsorted(h[order], h[order])
        return np.where(rank < -(-2 * d // m), super().signs(shape, m, seed, name), 0).astype(np.int8)


class Int8Buckets(Count):
    """Up to m = 256 buckets are held in int8, and negative ones count from the end: for m of 129 to 255 some double."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        h = super().buckets(shape, m, seed, name)
        if m > 256:
            return h
        h = h.astype(np.int8).astype(np.int64)
        return np.where(h < 0, h + m, h)


class RowIndexByte(Count):
    """Row numbers are held in one byte: row 256 has the buckets and signs of row 0."""

    @classmethod
    def _wrapped(cls, table, shape):
        return table.reshape(shape)[np.arange(shape[0]) & 255].ravel()

    @classmethod
    def buckets(cls, shape, m, seed, name):
        return cls._wrapped(super().buckets(shape, m, seed, name), shape)

    @classmethod
    def signs(cls, shape, m, seed, name):
        return cls._wrapped(super().signs(shape, m, seed, name), shape)


class FifteenBitIndex(Count):
    """Entries are numbered with 15 bits: from 32,768 on they have the buckets and signs of the first."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        return super().buckets(shape, m, seed, name)[np.arange(prod(shape)) & 0x7FFF]

    @classmethod
    def signs(cls, shape, m, seed, name):
        return super().signs(shape, m, seed, name)[np.arange(prod(shape)) & 0x7FFF]
