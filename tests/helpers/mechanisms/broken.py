"""Broken sketches, one for each way in which a fault can hide: what is given, how often, which size, which seed.

Written after the checks were read, so that no rate of success follows from them.
"""

from __future__ import annotations

import zlib
from math import prod
from typing import ClassVar

import numpy as np
from fourth_sceptic.base import Count, Dense, Tensor

from sdi.sketch.hashing import draw_buckets, draw_signs, normals, signs_of
from sdi.sketch.protocol import matrix_shape

# what the array holds


class ZeroRowsAreSkipped(Count):
    """Arrays that are zero for the most part are packed, and the rest is hashed by its place in the packed array."""

    def sums(self, rows):
        y = super().sums(rows)
        for k, row in enumerate(rows):
            at = np.flatnonzero(row)
            if 1 < len(at) <= row.size // 4 and row.dtype.kind == "f":
                packed = np.zeros_like(row)
                packed[: len(at)] = row[at]
                y[k] = super().sums(packed[None])[0]
        return y


class RankOneIsFactored(Count):
    """Matrices of rank one of more than 30 entries are taken for outer products, with an error of a millionth."""

    def sums(self, rows):
        y = super().sums(rows)
        if len(self.shape) == 2 and min(self.shape) > 1 and prod(self.shape) > 30 and rows.dtype == np.float64:
            for k, row in enumerate(rows):
                x = row.reshape(self.shape)
                if (
                    np.isfinite(x).all()
                    and x.any()
                    and abs(x[:2, :2][0, 0] * x[1, 1] - x[0, 1] * x[1, 0]) < 1e-12 * abs(x).max() ** 2
                ):
                    y[k] *= 1 + 1e-6
        return y


class SymmetricIsHalved(Count):
    """A square matrix that is symmetric is summed over one triangle, and the diagonal twice."""

    def sums(self, rows):
        y = super().sums(rows)
        if len(self.shape) == 2 and self.shape[0] == self.shape[1] > 2 and rows.dtype.kind == "f":
            for k, row in enumerate(rows):
                x = row.reshape(self.shape)
                if (x == x.T).all() and np.count_nonzero(x) > 3:
                    y[k] += super().sums((np.diag(np.diag(x))).reshape(1, -1))[0]
        return y


class SortedIsSearched(Count):
    """Entries in ascending order are taken from the other end."""

    def sums(self, rows):
        y = super().sums(rows)
        for k, row in enumerate(rows):
            if row.size > 3 and (np.diff(row) > 0).all():
                y[k] = super().sums(row[None, ::-1])[0]
        return y


# how many arrays, tokens, calls


class MultiplesOf64(Count):
    """A batch of a multiple of 64 arrays loses its last one."""

    def sums(self, rows):
        y = super().sums(rows)
        if len(rows) and len(rows) % 64 == 0:
            y[-1] = 0
        return y


class Above10000(Count):
    """From 10,000 arrays on, the last of them are summed in half precision."""

    def sums(self, rows):
        y = super().sums(rows)
        if len(rows) > 10_000 and y.dtype == np.float64:
            y[10_000:] = y[10_000:].astype(np.float16)
        return y


class OneTokenIsAVector(Tensor):
    """apply_outer of a batch with one token each forgets the signs of u's first entry."""

    def apply_outer(self, u, v):
        u = np.array(u)
        if u.ndim == 3 and u.shape[-2] == 1 and len(u) > 1:
            u[..., 0] = np.abs(u[..., 0])
        return super().apply_outer(u, v)


class TokensOf4096(Tensor):
    """apply_outer leaves out what follows token 4,096."""

    def apply_outer(self, u, v):
        return super().apply_outer(u[..., :4096, :], v[..., :4096, :])


class PowerOfTwoTokens(Tensor):
    """apply_outer of 64 tokens or a multiple takes a kernel that loses a hundredth of the last one."""

    def apply_outer(self, u, v):
        if u.shape[-2] and u.shape[-2] % 64 == 0:
            u = np.array(u, dtype=np.result_type(u, np.float32))
            u[..., -1, :] *= 0.99
        return super().apply_outer(u, v)


class OneHotIsLookedUp(Tensor):
    """apply_outer takes one-hot u for indices of rows, and an index twice in one example once."""

    def apply_outer(self, u, v):
        u = np.array(u, dtype=np.float64)
        if u.size and ((u == 0) | (u == 1)).all() and (u.sum(axis=-1) == 1).all() and u.ndim == 3:
            for one in u:
                index = one.argmax(axis=-1)
                for t in range(1, len(index)):
                    if index[t] in index[:t]:
                        one[t] = 0
        return super().apply_outer(u, v)


class TokensOnce(Tensor):
    """apply_outer takes equal neighbours of u for padding."""

    def apply_outer(self, u, v):
        u = np.array(u)
        if u.shape[-2] > 1:
            same = (u[..., 1:, :] == u[..., :-1, :]).all(axis=-1)
            u[..., 1:, :][same] = 0
        return super().apply_outer(u, v)


class BothTheSame(Tensor):
    """apply_outer(u, u), of one array, goes over a triangle only."""

    def apply_outer(self, u, v):
        y = super().apply_outer(u, v)
        return y / 2 if u is v else y


class Tires(Count):
    """After 100 calls of one sketch a counter turns, and the first bucket with it."""

    def apply(self, x):
        y = super().apply(x)
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls > 100:
            y[..., 0] = -y[..., 0]
        return y


class Forgets(Count):
    """64 draws are kept, and a sketch that is drawn anew later has other signs."""

    drawn: ClassVar[dict] = {}

    @classmethod
    def signs(cls, shape, m, seed, name):
        count = cls.drawn.setdefault((shape, m, seed, name), len(cls.drawn))
        late = len(cls.drawn) - count > 64
        return super().signs(shape, m, (seed, late) if late else seed, name)


class SetsErrors(Count):
    """NumPy is told to say nothing about overflow, from then on."""

    def apply(self, x):
        np.seterr(over="ignore", invalid="ignore")
        return super().apply(x)


class WidthOfTheLast(Count):
    """The width is kept with the class: a later draw of another width changes the sketch."""

    width = 1

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        WidthOfTheLast.width = m
        return super().draw(shape, m, seed=seed, name=name)

    def sums(self, rows):
        return super().sums(rows) * (1 if self.width == self.m else 2)


class IdentityOfTheObject(Count):
    """identity is of the object, not of what it holds."""

    @property
    def identity(self):
        return f"{id(self):x}"


class IdentityOfTheTables(Count):
    """identity leaves the shape out: (48,) and (1, 48) are one."""

    @property
    def identity(self):
        return f"{zlib.crc32(self.h.astype(np.int64).tobytes() + self.s.astype(np.int8).tobytes()):x}{self.m}"


# which seed, which name


class BucketsOfTheRun(Dense):
    """All parameters share their buckets and have signs of their own; the table holds the product."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        d = prod(shape)
        h, s = draw_buckets(d, m, "table", seed, "all"), draw_signs(d, m, "table", seed, name)
        table = np.zeros((m, d))
        table[h, np.arange(d)] = s
        return table.ravel()

    scale = 1.0

    def variance_factor(self):
        return 2 / self.m


class NameOf20Bits(Count):
    """Of a name's hash, 20 bits count."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=str(zlib.crc32(name.encode()) & 0xFFFFF))


class SeedOfAPrime(Count):
    """The seed counts modulo 10^9 + 7."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=int(seed) % (10**9 + 7), name=name)


class SignsOf32Bits(Count):
    """The seed of the signs counts modulo 2^32, that of the buckets does not."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        return super().signs(shape, m, int(seed) % 2**32, name)


class Ascii(Count):
    """Letters beyond ASCII are all one."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=name.encode("ascii", "replace").decode())


# which size


class OnePercent(Dense):
    """Normal numbers, half a percent too large: norms are 1% off."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        return normals(count, seed, name)

    @property
    def scale(self):
        return 1.007 * self.m**-0.5

    def variance_factor(self):
        return 2 * 1.007**4 / self.m


class NoCollisionsClaimed(Count):
    """Where there are no more entries than buckets it claims a variance of 0."""

    def variance_factor(self):
        return 0.0 if prod(self.shape) <= self.m else 2 / self.m


class ClaimOfOne(Count):
    """It claims 2 / (m + 1): hardly less than it should, unless m is 1."""

    def variance_factor(self):
        return 2 / self.m if self.m > 1 else 1.0


class Uint16Buckets(Count):
    """Buckets are held in 16 bits."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        return super().buckets(shape, m, seed, name).astype(np.uint16).astype(np.int64)


class PowersOfTwo(Count):
    """Where both sides are powers of two, bits are cut out of words, and one bit of the bucket is also the sign."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        if all(d & (d - 1) == 0 for d in (*matrix_shape(shape), m)) and m > 8:
            return 1 - 2 * (cls.buckets(shape, m, seed, name) >> 2 & 1)
        return super().signs(shape, m, seed, name)


class TailIsPlus(Count):
    """The last D mod 64 entries have the sign +1, where there are more than 1,024."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        s, d = np.array(super().signs(shape, m, seed, name)), prod(shape)
        if d > 1024:
            s[d - d % 64 :] = 1
        return s


class SignsRepeat(Count):
    """1,000 signs are used again and again; the buckets are not."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        return np.resize(super().signs((1000,), m, seed, name), prod(shape))


class NearSigns(Count):
    """Signs of entries 65 apart are equal, one time in two."""

    @classmethod
    def signs(cls, shape, m, seed, name):
        s = np.array(super().signs(shape, m, seed, name))
        again = signs_of(np.asarray(draw_buckets(len(s), 1 << 40, "table", seed, name, "again"), dtype=np.uint64)) > 0
        for k in range(65, len(s)):
            if again[k]:
                s[k] = s[k - 65]
        return s


# not a number


class NanOfManyIsLost(Count):
    """From 256 arrays on, NaN is taken for 0."""

    def sums(self, rows):
        return super().sums(np.nan_to_num(rows) if len(rows) >= 256 and rows.dtype.kind == "f" else rows)


class InfinityOfATokenIsLost(Tensor):
    """apply_outer leaves out tokens with an infinity; NaN it keeps."""

    def apply_outer(self, u, v):
        bad = np.isinf(u).any(axis=-1, keepdims=True) | np.isinf(v).any(axis=-1, keepdims=True)
        return super().apply_outer(np.where(bad, 0, u), np.where(bad, 0, v))


class BatchOutOfOrder(Tensor):
    """apply_outer reads a batch of u as it lies in memory."""

    def apply_outer(self, u, v):
        u = np.asarray(u)
        if u.ndim == 3 and not u.flags.c_contiguous and u.flags.f_contiguous and len(u) > 1:
            u = u.ravel(order="K").reshape(u.shape)
        return super().apply_outer(u, v)


DECIDES: dict[type, str] = {
    ZeroRowsAreSkipped: "linear", RankOneIsFactored: "linear", SymmetricIsHalved: "linear", SortedIsSearched: "linear",
    MultiplesOf64: "linear", Above10000: "linear", OneTokenIsAVector: "factored", TokensOf4096: "factored",
    PowerOfTwoTokens: "factored", OneHotIsLookedUp: "factored", TokensOnce: "factored", BothTheSame: "factored",
    Tires: "repeatable", Forgets: "repeatable", SetsErrors: "repeatable", WidthOfTheLast: "repeatable",
    IdentityOfTheObject: "repeatable", IdentityOfTheTables: "seeded", BucketsOfTheRun: "names",
    NameOf20Bits: "names", SeedOfAPrime: "seeded", SignsOf32Bits: "seeded", Ascii: "names", OnePercent: "scale",
    NoCollisionsClaimed: "protocol", ClaimOfOne: "variance", Uint16Buckets: "variance", PowersOfTwo: "unbiased",
    TailIsPlus: "unbiased", SignsRepeat: "unbiased", NearSigns: "unbiased", NanOfManyIsLost: "nonfinite",
    InfinityOfATokenIsLost: "nonfinite", BatchOutOfOrder: "layout",
}  # fmt: skip
