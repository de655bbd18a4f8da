"""Norms or products are wrong on average, at some sizes or for some gradients."""

from math import isqrt, prod, sqrt

import numpy as np

from fifth_sceptic.base import Dense, Flat, Rows, buckets, signs, walsh
from sdi.sketch import bits
from sdi.sketch.hashing import distinct, normals


class PowerOfTwoRows(Dense):
    """Has as many rows as the power of two below m, but divides by sqrt(m): norms too small at m = 24, 1000."""

    asked: int

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, 1 << (m.bit_length() - 1), seed=seed, name=name)
        made.asked = m
        return made

    def rows(self, x):
        return x @ self.table.T / sqrt(self.asked)


class PaddedHadamard(Rows):
    """Scales by sqrt(D / m) where the transform was padded to p > D: norms too small by D / p."""

    def __init__(self, shape, s, at):
        self._shape, self.s, self.at = tuple(shape), s, at

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        p = 1 << (d - 1).bit_length()
        return cls(shape, signs(d, seed, name, "s"), distinct(min(m, p), p, seed, name, "at"))

    @property
    def size(self):
        return len(self.at)

    def tables(self):
        return {"s": self.s, "at": self.at}

    def rows(self, x):
        y, p = walsh(x * self.s)
        return y[:, self.at] / sqrt(p) * sqrt(self.count / self.size)

    def variance_factor(self):
        return 2 / self.size


class UniqueMask(Rows):
    """A mask drawn with replacement that leaves out what came twice, but scales as if m entries were left."""

    def __init__(self, shape, at):
        self._shape, self.at = tuple(shape), at

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, buckets(m, prod(shape), seed, name, "at"))

    @property
    def size(self):
        return len(self.at)

    def tables(self):
        return {"at": self.at}

    def rows(self, x):
        first = np.zeros(self.size)
        first[np.unique(self.at, return_index=True)[1]] = 1
        return x[:, self.at] * first * sqrt(self.count / self.size)

    def variance_factor(self):
        return self.count / self.size


class FloorStrata(UniqueMask):
    """One entry from each of m strata of D // m entries: what is left over at the end is never seen if m does not
    divide D."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        m = min(m, d)
        return cls(shape, d // m * np.arange(m) + buckets(m, d // m, seed, name, "at"))

    def rows(self, x):
        return x[:, self.at] * sqrt(self.count // self.size)


class KroneckerOneScale(Rows):
    """P X Q^T with both sides divided by sqrt(k1): right where k1 = k2, as for m = 16."""

    def __init__(self, shape, left, right):
        self._shape, self.left, self.right = tuple(shape), left, right

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d1, d2 = shape[0], prod(shape[1:])
        k1 = min(isqrt(m), d1)
        k2 = min(m // k1, d2)
        left, right = (signs(k * d, seed, name, i).reshape(k, d) for i, (k, d) in enumerate([(k1, d1), (k2, d2)]))
        return cls(shape, left, right)

    @property
    def size(self):
        return len(self.left) * len(self.right)

    def tables(self):
        return {"left": self.left, "right": self.right}

    def rows(self, x):
        X = x.reshape(len(x), self.left.shape[1], self.right.shape[1])
        return (self.left @ X @ self.right.T / len(self.left)).reshape(len(x), self.size)

    def variance_factor(self):
        return (1 + 2 / len(self.left)) * (1 + 2 / len(self.right)) - 1


class Centred(Flat):
    """Takes the mean of all entries away before sketching, "to lower the variance": gradients' means are lost."""

    def rows(self, x):
        return super().rows(x - x.mean(axis=1, keepdims=True))


class RoundedNormals(Dense):
    """Normal numbers rounded to whole ones, to be kept in a byte: their variance is 1 + 1/12."""

    @classmethod
    def table_of(cls, shape, m, seed, name):
        return np.rint(normals(m * prod(shape), seed, name)).astype(np.int8).reshape(m, -1)


class DctFirstRow(PaddedHadamard):
    """A sample of a cosine transform whose first row is not divided by sqrt(2): norms too large by 1 / D."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        return cls(shape, signs(d, seed, name, "s"), distinct(min(m, d), d, seed, name, "at"))

    def rows(self, x):
        from scipy.fft import dct

        return dct(x * self.s, axis=1)[:, self.at] / sqrt(2 * self.size)

    def variance_factor(self):
        return 7 / self.size


class SmallMask(UniqueMask):
    """A mask without replacement for parameters of any size, scaled by sqrt(D / m) also where D < m."""

    keeps_small = False

    def __init__(self, shape, at, m):
        super().__init__(shape, at)
        self.asked = m

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, distinct(min(m, prod(shape)), prod(shape), seed, name, "at"), m)

    def rows(self, x):
        return x[:, self.at] * sqrt(self.count / self.asked)

    def variance_factor(self):
        return (self.count - self.size) / self.size


class SymmetricSquare(Flat):
    """Takes square matrices for symmetric: keeps the upper triangle, times sqrt(2). Gradients are not symmetric."""

    def rows(self, x):
        if len(self._shape) == 2 and self._shape[0] == self._shape[1]:
            upper = np.triu(np.full(self._shape, sqrt(2)), 1) + np.eye(self._shape[0])
            x = x * upper.ravel()
        return super().rows(x)


class VectorsUnsigned(Flat):
    """Draws no signs for vectors, "which are small": products of a bias are too large by 1 / m per pair of entries."""

    @classmethod
    def s_of(cls, shape, seed, name):
        return np.ones(shape[0], dtype=np.int64) if len(shape) == 1 else super().s_of(shape, seed, name)


class ByteThreshold(Flat):
    """A byte above 128 is a plus: off by one, so a sign is + in 127 of 256. Large flat gradients: norms too large."""

    @classmethod
    def s_of(cls, shape, seed, name):
        d = prod(shape)
        return np.where(bits(-(-d // 8), seed, name, "s").astype("<u8").view(np.uint8)[:d] > 128, 1, -1)


SKETCHES = [
    ("PowerOfTwoRows", PowerOfTwoRows, "broken"),
    ("PaddedHadamard", PaddedHadamard, "broken"),
    ("UniqueMask", UniqueMask, "broken"),
    ("FloorStrata", FloorStrata, "broken"),
    ("KroneckerOneScale", KroneckerOneScale, "broken"),
    ("Centred", Centred, "broken"),
    ("RoundedNormals", RoundedNormals, "broken"),
    ("DctFirstRow", DctFirstRow, "broken"),
    ("SmallMask", SmallMask, "broken"),
    ("SymmetricSquare", SymmetricSquare, "broken"),
    ("VectorsUnsigned", VectorsUnsigned, "broken"),
    ("ByteThreshold", ByteThreshold, "broken"),
]
