"""Right: dense projections, transforms, masks and isometries of unusual kinds."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np
from scipy.fft import dct

from fourth_sceptic.base import Dense, Flat, Mask, chance
from sdi.sketch.hashing import bits, distinct, draw_signs, normals, sign_bits
from sdi.sketch.protocol import check_m, check_shape


class Achlioptas(Dense):
    """Right: sqrt(3) times -1, 0, +1 with probabilities 1/6, 2/3, 1/6; the fourth moment is a normal number's."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        side = (bits(count, seed, name, "six") % np.uint64(6)).astype(np.int8)
        return ((side == 0).astype(np.float32) - (side == 1)) * np.float32(sqrt(3))


class PopcountEntries(Dense):
    """Right: the ones among 8 bits, less 4, over sqrt(2): a binomial in place of a normal number."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        eight = bits(-(-count // 8), seed, name, "eight").astype("<u8").view(np.uint8)[:count]
        return (np.unpackbits(eight[:, None], axis=1).sum(axis=1, dtype=np.int64) - 4).astype(np.float64) / sqrt(2)


class SparseEighth(Dense):
    """Right: one entry in eight is +-sqrt(8), and the claim 7 / m is that of a single number."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        w = (bits(count, seed, name, "sixteen") % np.uint64(16)).astype(np.int8)
        return ((w == 0).astype(np.float32) - (w == 1)) * np.float32(sqrt(8))

    def variance_factor(self):
        return 7 / self.m


class UnitColumns(Dense):
    """Right: every column is a random direction of norm 1, so that single entries have no error."""

    scale = 1.0

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        table = normals(count, seed, name, "direction").astype(np.float64).reshape(m, -1)
        return (table / np.sqrt((table**2).sum(axis=0))).ravel()


class HaarRows(Dense):
    """Right: a random subspace, from QR, times sqrt(D / m); refuses tables above 2^22 entries."""

    scale = 1.0

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        shape = check_shape(shape, cls.__name__)
        d = prod(shape)
        k = min(int(m), d)
        if k * d > 1 << 22:
            raise ValueError(f"m times the entries must be at most {1 << 22}, got {k * d}")
        q, _ = np.linalg.qr(normals(d * k, seed, name, "haar").astype(np.float64).reshape(d, k))
        return cls(shape, np.ascontiguousarray(q.T) * sqrt(d / k))

    def variance_factor(self):
        return 2 / self.m if self.m < prod(self.shape) else 0.0


class CosineTransform(Flat):
    """Right: random signs, the cosine transform, and m of its D numbers chosen without replacement."""

    def __init__(self, shape, signs, index):
        self._shape, self.m, self.signs, self.index = tuple(shape), len(index), signs, index

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        d = prod(check_shape(shape, cls.__name__))
        return cls(shape, draw_signs(d, m, "table", seed, name), distinct(min(m, d), d, seed, name, "at"))

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, tables["signs"], tables["index"])

    def tables(self):
        return {"signs": self.signs, "index": self.index}

    def sums(self, rows):
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        if not len(rows):
            return np.zeros((0, self.m), dtype=kind)
        with np.errstate(over="ignore", invalid="ignore"):
            z = dct(rows.astype(np.float64) * self.signs, norm="ortho", axis=-1)[:, self.index]
            return (z * sqrt(prod(self.shape) / self.m)).astype(kind)

    def variance_factor(self):
        """E z^2 w^2 is at most 3 times the variances' product, and a squared entry of the transform at most 2 / D."""
        d = prod(self.shape)
        return 6 * (d - self.m) / (max(d - 1, 1) * self.m)


class SystematicMask(Mask):
    """Right: every (D / m)-th entry from one random start, times sqrt(D / m): each has probability m / D."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        d = prod(check_shape(shape, cls.__name__))
        k = min(int(m), d)
        start = chance(bits(1, seed, name, "start"))
        return cls(shape, np.minimum(((start + np.arange(k)) * (d / k)).astype(np.int64), d - 1))


class SignedPermutation(Flat):
    """Right: all entries in another order, with random signs: an isometry that claims 0."""

    def __init__(self, shape, order, signs):
        self._shape, self.m, self.order, self.signs = tuple(shape), prod(shape), order, signs

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(check_shape(shape, cls.__name__))
        order = np.argsort(bits(d, seed, name, "order"), kind="stable")
        return cls(shape, order, sign_bits(d, seed, name, "signs"))

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, tables["order"], tables["signs"])

    def tables(self):
        return {"order": self.order, "signs": self.signs}

    def sums(self, rows):
        return (rows.astype(np.int64) if rows.dtype.kind in "iub" else rows)[:, self.order] * self.signs

    def variance_factor(self):
        return 0.0


class Householder(Flat):
    """Right: a reflection at a random direction: an isometry up to rounding, that claims 0."""

    def __init__(self, shape, v):
        self._shape, self.m, self.v = tuple(shape), prod(shape), v

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        v = normals(prod(check_shape(shape, cls.__name__)), seed, name, "mirror").astype(np.float64)
        return cls(shape, v / np.sqrt(v @ v))

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, tables["v"])

    def tables(self):
        return {"v": self.v}

    def sums(self, rows):
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        wide = rows.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            return (wide - 2 * (wide @ self.v)[:, None] * self.v).astype(kind)

    def variance_factor(self):
        return 0.0
