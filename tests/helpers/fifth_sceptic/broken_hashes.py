"""Bucket and sign depend on each other, or entries on entries."""

from math import isqrt, prod

import numpy as np

from fifth_sceptic.base import Flat, buckets, signs
from sdi.sketch import bits


class SignIsParity(Flat):
    """Bucket and sign come from the low bits of one word: at even m the sign is the parity of the bucket."""

    @classmethod
    def h_of(cls, shape, m, seed, name):
        return buckets(prod(shape), m, seed, name)

    @classmethod
    def s_of(cls, shape, seed, name):
        return signs(prod(shape), seed, name)


class SignBit8(SignIsParity):
    """Bucket and sign come from one word, the sign from bit 8: it is fixed by the bucket at m = 512, 1024, 2048."""

    @classmethod
    def s_of(cls, shape, seed, name):
        return 1 - 2 * (bits(prod(shape), seed, name) >> np.uint64(8) & np.uint64(1)).astype(np.int64)


class RowSigns(Flat):
    """One sign for each row of the matrix: the entries of a row are never told apart by sign."""

    @classmethod
    def s_of(cls, shape, seed, name):
        return np.repeat(signs(shape[0], seed, name, "s"), prod(shape[1:]))


class TiledSigns(Flat):
    """Signs are drawn for 4,096 entries and repeated, to save time: large flat gradients get norms too large."""

    @classmethod
    def s_of(cls, shape, seed, name):
        return np.resize(signs(min(prod(shape), 4096), seed, name, "s"), prod(shape))


class GridWrap(Flat):
    """Bucket and sign are drawn for a grid of a x (D // a) entries, a = isqrt(D), and repeated for the last."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        n = isqrt(d) * (d // isqrt(d))
        h, s = buckets(n, m, seed, name, "h"), signs(n, seed, name, "s")
        return cls(shape, m, np.resize(h, d), np.resize(s, d))


SKETCHES = [
    ("SignIsParity", SignIsParity, "broken"),
    ("SignBit8", SignBit8, "broken"),
    ("RowSigns", RowSigns, "broken"),
    ("TiledSigns", TiledSigns, "broken"),
    ("GridWrap", GridWrap, "broken"),
]
