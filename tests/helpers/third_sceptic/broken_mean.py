"""Broken: the mean of <S x, S y> is not <x, y>, at some shapes, sizes or arrays."""

from math import prod, sqrt

import numpy as np

from sdi.sketch import bits
from third_sceptic.base import Count, Dense, Hadamard, Sides, Table, normal, scatter, signs_of, uniform


class LostLastColumn(Count):
    """Handles columns in pairs: the last one of an odd number gets the sign 0. At (8, 5) a fifth is lost."""

    @classmethod
    def make(cls, shape, m, seed, name):
        tables = super().make(shape, m, seed, name)
        if len(shape) == 2 and shape[1] % 2 and shape[1] > 1:
            tables["s"] = tables["s"].reshape(shape).copy()
            tables["s"][:, -1] = 0
            tables["s"] = tables["s"].ravel()
        return tables


class SignsOfRows(Count):
    """A sign for each row of a matrix, a bucket for each entry: equal columns add d_in / m of themselves."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d2 = prod(shape[1:])
        signs = np.repeat(signs_of(bits(shape[0], seed, name, "s")), d2)
        return {"h": cls.buckets(prod(shape), m, seed, name), "s": signs}


class SlightlyUnfairSigns(Count):
    """P(-1) is 0.45: flat arrays of D entries are too long by 0.01 (D - 1) / m, at 1,000 entries and m = 16 by 0.6."""

    @classmethod
    def signs(cls, d, *words):
        return np.where(uniform(d, *words, "s") < 0.45, -1, 1).astype(np.int8)


class PaddedScale(Hadamard):
    """Scaled by sqrt(N / D) too much, N the padded length: up to twice too large, right only at powers of two."""

    def scale(self):
        d = prod(self.shape)
        return sqrt((1 << (d - 1).bit_length()) / d / self.m)


class UniqueOfReplaced(Table):
    """A mask drawn with replacement, repeats removed, scaled as if m were left: 14% too small at D = 48, m = 16."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        at = np.unique((bits(m, seed, name) % np.uint64(d)).astype(np.int64))
        return {"at": np.concatenate([at, np.full(m - len(at), -1)])}

    def rows(self, x):
        return np.where(self.t["at"] >= 0, x[:, self.t["at"]], 0) * sqrt(x.shape[1] / self.m)

    def variance_factor(self):
        return prod(self.shape) / self.m


class ClippedNormals(Dense):
    """Normal numbers clipped at 2 'for stability': their variance is 0.92, so every product is 8% too small."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        return np.clip(normal(m * d, seed, name), -2, 2).reshape(m, d)


class DividesByCounts(Count):
    """Each bucket is divided by the root of its number of entries: products are smaller by about m / D."""

    def rows(self, x):
        counts = np.bincount(self.t["h"], minlength=self.m)
        return super().rows(x) / np.sqrt(np.maximum(counts, 1))


class TrashBucket(Count):
    """m + 1 buckets, of which the last is thrown away: products are too small by 1 / (m + 1), 6% at m = 16."""

    @classmethod
    def buckets(cls, d, m, *words):
        return (bits(d, *words, "h") % np.uint64(m + 1)).astype(np.int64)

    def rows(self, x):
        return scatter(x, self.t["h"], self.t["s"], self.m + 1)[:, : self.m]


class TailDropped(Count):
    """From 128 entries on it works in tiles of 64 and drops the last, partial one: at 200 entries 4% are lost."""

    @classmethod
    def signs(cls, d, *words):
        signs = super().signs(d, *words).copy()
        if d >= 128:
            signs[d // 64 * 64 :] = 0
        return signs


class NeighboursShareSigns(Count):
    """s(2i) = s(2i + 1): E |S (1, 1)|^2 is 2 + 2 / m. Flat arrays are 1 / m too long, 6% at m = 16."""

    @classmethod
    def signs(cls, d, *words):
        return np.repeat(super().signs(-(-d // 2), *words), 2)[:d]


class IndexOf16Bits(Count):
    """The index is kept in 16 bits: entries i and i + 65,536 have one bucket and one sign. A flat array of 262,135
    entries comes out four times too long (squared)."""

    @classmethod
    def make(cls, shape, m, seed, name):
        tables = super().make((min(prod(shape), 1 << 16),), m, seed, name)
        return {k: np.resize(t, prod(shape)) for k, t in tables.items()}


class TiledSigns(Count):
    """Only 1,024 signs, repeated: flat arrays of D entries are D / 1,024 / m too long, at 20,000 and m = 16 by 1.2."""

    @classmethod
    def signs(cls, d, *words):
        return np.resize(super().signs(min(d, 1024), *words), d)


class SharedSidesWhenSquare(Sides):
    """Square matrices use one hash for both sides: (i, j) and (j, i) always meet, E <S e_ij, S e_ji> = 1, not 0."""

    @classmethod
    def words(cls, sides, seed, name, side):
        return (seed, name, "side") if sides[0] == sides[1] else (seed, name, side)


class OddFrequencies(Table):
    """Real and imaginary parts of m // 2 frequencies, scaled by m: for odd m too small by 1 / m, 7% at m = 15."""

    @classmethod
    def make(cls, shape, m, seed, name):
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        d = prod(shape)
        at = (bits(m // 2, seed, name, "at") % np.uint64(d)).astype(np.int64)
        return {"s": signs_of(bits(d, seed, name, "s")), "at": at}

    def rows(self, x):
        z = np.fft.fft(x * self.t["s"])[:, self.t["at"]]
        y = np.zeros((len(x), self.m))
        y[:, 0 : 2 * z.shape[1] : 2], y[:, 1 : 2 * z.shape[1] : 2] = z.real, z.imag
        return y * sqrt(2 / self.m)


class WrapsToFillBlocks(Count):
    """A permutation, wrapped around to fill whole rows of m: the wrapped entries count twice. 33% at D = 48, m = 32."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        order = np.argsort(bits(d, seed, name, "order"), kind="stable")
        order = np.resize(order, -(-d // m) * m)
        return {"order": order, "s": signs_of(bits(len(order), seed, name, "s"))}

    def rows(self, x):
        return (x[:, self.t["order"]] * self.t["s"]).reshape(len(x), -1, self.m).sum(axis=1)


class CentredColumns(Dense):
    """The mean of each column of a Gaussian matrix is taken away: products are too small by 1 / m, 6% at m = 16."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        table = super().matrix(m, d, seed, name)
        return table - table.mean(axis=0) if m > 1 else table


class CentredRows(Dense):
    """The mean of each row of a Gaussian matrix is taken away: a flat array comes out as zero; random ones are fine."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        table = super().matrix(m, d, seed, name)
        return table - table.mean(axis=1, keepdims=True) if d > 1 else table


class NarrowSides(Table):
    """P X Q^T with normal P and Q of k = sqrt(m) rows; a side shorter than k is kept, but scaled by sqrt(d / k)."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d1, d2 = shape if len(shape) == 2 else (shape[0], 1)
        k = int(sqrt(m))
        sides = {"p": (k, d1), "q": (k, d2)}
        tables = {
            side: normal(k * d, seed, name, side).reshape(k, d) / sqrt(k) if d > k else np.eye(d) * sqrt(d / k)
            for side, (k, d) in sides.items()
        }
        return {side: t for side, t in tables.items() if sides[side][1] > 1 or side == "p"}

    @property
    def size(self):
        return prod(len(t) for t in self.t.values())

    def rows(self, x):
        y = self.t["p"] @ x.reshape(len(x), self.t["p"].shape[1], -1)
        y = y @ self.t["q"].T if "q" in self.t else y
        return y.reshape(len(x), self.size)

    def variance_factor(self):
        return prod(1 + 2 / len(t) for t in self.t.values()) - 1


class LowFrequencies(Table):
    """Signs, then cosines of the lowest quarter of the frequencies: the first and last entries count almost twice."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        at = (bits(m, seed, name, "at") % np.uint64(max(d // 4, 1))).astype(np.int64)
        return {"s": signs_of(bits(d, seed, name, "s")), "at": at}

    def rows(self, x):
        from scipy.fft import dct

        return dct(x * self.t["s"], norm="ortho", axis=-1)[:, self.t["at"]] * sqrt(x.shape[1] / self.m)

    def variance_factor(self):
        return 6 / self.m


class RowsOfFewKinds(Count):
    """The tables of a matrix are those of its first 64 rows, repeated: row i and row i + 64 always add up.
    Matrices of 128 rows that are alike come out twice too long (squared)."""

    @classmethod
    def make(cls, shape, m, seed, name):
        few = (min(shape[0], 64), *shape[1:]) if len(shape) == 2 else shape
        return {k: np.resize(t, prod(shape)) for k, t in super().make(few, m, seed, name).items()}


class LengthInInt8(Dense):
    """Signs times D, over D; but D is an int8, as the signs are, and wraps: at D = 200 products come out 0.08 times."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        signs = signs_of(bits(m * d, seed, name)).reshape(m, d)
        return signs * np.array(d).astype(np.int8) / float(d)


class BalancedSigns(Count):
    """Exactly half of all signs are -1, 'to be fair': signs are negatively correlated, and flat arrays are too short by
    1 / m, 6% at m = 16."""

    @classmethod
    def signs(cls, d, *words):
        order = np.argsort(bits(d, *words, "s"), kind="stable")
        return np.where(order < d // 2, -1, 1).astype(np.int8)
