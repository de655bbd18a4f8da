"""Sketches of a sceptic who had not read the checks: faults of hashes."""

from __future__ import annotations

from math import prod

import numpy as np
from sceptic_bases import Count, Tensor, broken, hadamard_rows, uniform
from sceptic_right import TabulationHonest

from sdi.sketch import bits
from sdi.sketch.hashing import normals, signs_of
from sdi.sketch.protocol import matrix_shape


@broken("hashing", "Buckets are taken modulo m - 1: the last one stays empty, and the variance is 2/(m - 1), not 2/m.")
class BucketsOffByOne(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h") % np.uint64(max(1, m - 1))).astype(np.int64)


@broken("hashing", "Buckets are masked by a power of two: where m is none, up to half of them are never used.")
class BucketsMasked(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h") & np.uint64((1 << (int(m).bit_length() - 1)) - 1)).astype(np.int64)


@broken("hashing", "Buckets come from one byte: beyond m = 256 the others stay empty, and at other m they are uneven.")
class BucketsOfAByte(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h").view(np.uint8)[::8].astype(np.int64)) % m


@broken("hashing", "round(u (m - 1)) gives the first and the last bucket half of what the others get.")
class BucketsRounded(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return np.rint(uniform(d, seed, name, "h") * (m - 1)).astype(np.int64)


@broken(
    "hashing", "Buckets are a scaled, clipped normal number: far from uniform, so entries meet more often than 1/m."
)
class BucketsNormal(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return np.clip((normals(d, seed, name, "h") / 6 + 0.5) * m, 0, m - 1).astype(np.int64)


@broken("hashing", "Bucket 0 is twice as likely as any other, and the claim does not know it.")
class BucketZeroTwice(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h") % np.uint64(m + 1)).astype(np.int64) % m


@broken("hashing", "Two percent of the entries go to bucket 0, whatever their hash: the variance is over 2/m.")
class BucketZeroTwoPercent(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return np.where(uniform(d, seed, name, "d") < 0.02, 0, super().buckets(d, m, seed, name))


@broken("hashing", "Buckets from 0 to m are drawn, one too many: apply raises IndexError for some draws.")
class BucketsOneTooMany(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h") % np.uint64(m + 1)).astype(np.int64)


@broken("hashing", "Sign and bucket come from one word: with even m, all entries of a bucket have one sign (a bias).")
class SignOfSameWord(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return signs_of(bits(d, seed, name, "h")).astype(np.int64)


@broken(
    "hashing",
    "A 16-bit word is scaled to a bucket and its top bit is the sign: a bucket's entries share their sign, a bias.",
)
class SignOfShortWord(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        w = (bits(prod(shape), seed, name) & np.uint64(0xFFFF)).astype(np.int64)
        return cls(shape, m, w * int(m) >> 16, 1 - 2 * (w >> 15))


@broken("hashing", "Signs are + with probability 0.55: pairs are biased by 1% of 1/m, flat gradients by D/m percent.")
class SignsUnfair55(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return np.where(uniform(d, seed, name, "s") < 0.55, 1, -1)


@broken("hashing", "Signs are + with probability 0.51: a bias of 0.0004 D/m for flat gradients.")
class SignsUnfair51(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return np.where(uniform(d, seed, name, "s") < 0.51, 1, -1)


@broken(
    "hashing", "sign() of a random integer from -5 to 5 is 0 one time in eleven: such entries are lost, norms 9% low."
)
class SignsSometimesZero(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return np.sign((bits(d, seed, name, "s") % np.uint64(11)).astype(np.int64) - 5)


@broken("hashing", "sign() of a random integer from -50 to 50 is 0 one time in 101: norms are 1% low.")
class SignsRarelyZero(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return np.sign((bits(d, seed, name, "s") % np.uint64(101)).astype(np.int64) - 50)


@broken("hashing", "There are no signs at all: every pair that meets adds to the mean.")
class NoSigns(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return np.ones(d, dtype=np.int64)


@broken("hashing", "h(i) = a i + b mod m: entries whose distance is a multiple of m always meet.")
class CongruentialBuckets(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        a, b = (int(w) for w in bits(2, seed, name, "h"))
        return (np.arange(d) * (a % m) + b % m) % m


@broken("hashing", "Signs are parities of masked indices, only 2-wise independent: the variance grows like D/m^2.")
class PairwiseSigns(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        a, b = bits(2, seed, name, "s")
        return (hadamard_rows([int(a) & 0xFFFFFFFF], d)[0] * (1 - 2 * int(b & np.uint64(1)))).astype(np.int64)


@broken("hashing", "Signs are the low bit of a degree-1 polynomial: 2-wise, but the bound needs 4-wise.")
class DegreeOneSigns(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        a, b = (int(w) % (2**31 - 1) for w in bits(2, seed, name, "s"))
        return 1 - 2 * ((np.arange(d) * a + b) % (2**31 - 1) % 2)


@broken(
    "hashing", "Signs by simple tabulation are 3-wise independent: the variance is up to 2/m + 6/m^2, over the claim."
)
class TabulationSigns(TabulationHonest):
    def variance_factor(self):
        return 2 / self.m


@broken("hashing", "One of only 64 fixed sign patterns is chosen: pairs keep a mean of about 1/8.")
class FewSignPatterns(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        which = int(bits(1, seed, name, "s")[0]) % 64
        return signs_of(bits(d, "patterns", which)).astype(np.int64)


@broken("hashing", "64 signs are repeated along the parameter: entries 64 apart share theirs, a bias of 1/m.")
class TiledSigns(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return np.resize(signs_of(bits(64, seed, name, "s")).astype(np.int64), d)


@broken("hashing", "A table of 4096 hashes is used again and again: entries 4096 apart are always summed.")
class TableOf4096(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        made = super().draw((min(d, 4096),), m, seed=seed, name=name)
        return cls(shape, m, np.resize(made.h, d), np.resize(made.s, d))


@broken("hashing", "Entry (i, j) has the key 256 i + j: in rows longer than 256, it shares all with (i + 1, j - 256).")
class KeyOf256(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        i, j = np.indices(matrix_shape(tuple(shape))) if len(shape) > 1 else (np.arange(shape[0]), 0)
        key = (i * 256 + j).ravel()
        made = super().draw((int(key.max()) + 1,), m, seed=seed, name=name)
        return cls(shape, m, made.h[key], made.s[key])


@broken("hashing", "The key is i d_out + j in place of i d_in + j: right for square and tall, shared in wide matrices.")
class WrongStride(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d1, d2 = matrix_shape(tuple(shape))
        key = (np.arange(d1)[:, None] * d1 + np.arange(d2)[None]).ravel()
        made = super().draw((int(key.max()) + 1,), m, seed=seed, name=name)
        return cls(shape, m, made.h[key], made.s[key])


@broken("hashing", "The hash sees the column only: the rows of a matrix are summed up.")
class ColumnsOnly(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d1, d2 = (1, shape[0]) if len(shape) == 1 else shape
        made = super().draw((d2,), m, seed=seed, name=name)
        return cls(shape, m, np.tile(made.h, d1), np.tile(made.s, d1))


@broken("hashing", "Buckets are per entry, but one sign serves a whole row: a bias of 1/m between entries of a row.")
class SignPerRow(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made, (d1, d2) = super().draw(shape, m, seed=seed, name=name), matrix_shape(tuple(shape))
        return cls(shape, m, made.h, np.repeat(made.s[:d1], d2))


@broken("hashing", "Rows and columns use one table: X and its transpose are confounded.")
class RowsAreColumns(Tensor):
    @classmethod
    def side(cls, d, m, seed, name, side):
        return super().side(d, m, seed, name, "side")


@broken("hashing", "Rows and columns share their signs: (i, j) and (j, i) have one sign, a bias of 1/m.")
class RowSignsAreColumnSigns(Tensor):
    @classmethod
    def side(cls, d, m, seed, name, side):
        return super().side(d, m, seed, name, side)[0], super().side(d, m, seed, name, "both")[1]


@broken("hashing", "Rows and columns share their buckets: (i, j) and (j, i) always meet, a variance of 1.")
class RowBucketsAreColumnBuckets(Tensor):
    @classmethod
    def side(cls, d, m, seed, name, side):
        return super().side(d, m, seed, name, "both")[0], super().side(d, m, seed, name, side)[1]


@broken("hashing", "Only rows are signed; the entries of one row meet with one sign, a bias of 1/m.")
class ColumnsUnsigned(Tensor):
    @classmethod
    def side(cls, d, m, seed, name, side):
        h, s = super().side(d, m, seed, name, side)
        return h, s if side == "rows" else np.ones_like(s)
