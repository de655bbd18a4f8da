"""Right: buckets and signs of unusual kinds."""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from fourth_sceptic.base import Count
from sdi.sketch.hashing import bits, draw_buckets, draw_signs
from sdi.sketch.protocol import check_m, check_shape

PRIME = np.uint64((1 << 31) - 1)


class BalancedBuckets(Count):
    """Right: buckets are dealt out like cards, all of one load; entries meet no more often than by chance."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        d = prod(shape)
        h = np.empty(d, dtype=np.int64)
        h[np.argsort(bits(d, seed, name, "deal"), kind="stable")] = np.arange(d) % m
        return h


class PowerOfTwoSize(Count):
    """Right: gives fewer numbers than allowed, a power of two, with polynomials for buckets and signs."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        shape, size = check_shape(shape, cls.__name__), 1 << (int(m).bit_length() - 1)
        h, s = (one(prod(shape), size, "polynomial", seed, name) for one in (draw_buckets, draw_signs))
        return cls(shape, size, h, s)


class ColumnMajor(Count):
    """Right: the parameter is flattened column by column."""

    def rows(self, x):
        k = len(self.shape)
        return super().rows(x.swapaxes(-1, -2) if k == 2 else x)


class FirstKept(Count):
    """Right: a quarter of the numbers are first entries of the parameter, kept as they are; the rest is hashed."""

    @classmethod
    def _kept(cls, shape, m):
        return min(m // 4, prod(shape) - 1)

    @classmethod
    def buckets(cls, shape, m, seed, name):
        k = cls._kept(shape, m)
        return np.concatenate([np.arange(k), k + draw_buckets(prod(shape) - k, m - k, "table", seed, name)])

    @classmethod
    def signs(cls, shape, m, seed, name):
        s = super().signs(shape, m, seed, name)
        s[: cls._kept(shape, m)] = 1
        return s

    def variance_factor(self):
        return 2 / (self.m - self._kept(self.shape, self.m))


class BooleanSigns(Count):
    """Right: the tables are bytes and truth values, 3 bytes for an entry."""

    def __init__(self, shape, m, h, s):
        super().__init__(shape, m, h.astype(np.int64), s if s.dtype != bool else np.where(s, -1, 1).astype(np.int8))

    def tables(self):
        return {"negative": self.s < 0, "h": self.h.astype(np.uint32)}

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, m, tables["h"], tables["negative"])


class FortranAnswers(Count):
    """Right: tables are strided views of one array, and answers lie in Fortran's order."""

    def __init__(self, shape, m, h, s):
        both = np.stack([h, s], axis=1).astype(np.int64)
        super().__init__(shape, m, both[:, 0], both[:, 1])

    def answer(self, y, lead):
        return np.asfortranarray(super().answer(y, lead))


class LazyTables(Count):
    """Right: holds seed and name, and draws its tables when they are first used."""

    def __init__(self, shape, m, seed, name):
        self._shape, self.m, self.key = tuple(shape), m, (seed, name)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        return cls(check_shape(shape, cls.__name__), int(m), seed, name)

    of_tables = None

    @cached_property
    def h(self):
        return draw_buckets(prod(self.shape), self.m, "table", *self.key)

    @cached_property
    def s(self):
        return draw_signs(prod(self.shape), self.m, "table", *self.key)


class HashedOnTheFly(Count):
    """Right: six coefficients are all of its tables; polynomials mod 2^31 - 1, 2-wise buckets and 4-wise signs."""

    def __init__(self, shape, m, coefficients):
        self._shape, self.m, self.coefficients = tuple(shape), m, coefficients

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        return cls(check_shape(shape, cls.__name__), int(m), bits(6, seed, name, "polynomials") % PRIME)

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, m, tables["coefficients"])

    def tables(self):
        return {"coefficients": self.coefficients}

    def _values(self, coefficients):
        at, value = np.arange(prod(self.shape), dtype=np.uint64), np.uint64(0)
        for c in coefficients:
            value = (value * at + c) % PRIME
        return value

    @property
    def h(self):
        return (self._values(self.coefficients[:2]) % np.uint64(self.m)).astype(np.int64)

    @property
    def s(self):
        return (1 - 2 * (self._values(self.coefficients[2:]) % np.uint64(2)).astype(np.int64)).astype(np.int8)
