"""Right: several buckets or numbers for an entry."""

from __future__ import annotations

from math import pi, prod, sqrt

import numpy as np

from fourth_sceptic.base import Flat, chance
from sdi.sketch.hashing import bits, draw_buckets, draw_signs
from sdi.sketch.protocol import check_m, check_shape
from sdi.sketch.shipped.count_and_tensor import scatter


class Several(Flat):
    """Several CountSketches in one: h and s are (k, D), and `weights` says how each counts."""

    def __init__(self, shape, m, h, s):
        self._shape, self.m, self.h, self.s = tuple(shape), m, h, s

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, m, *tables.values())

    def tables(self):
        return {"h": self.h, "s": self.s}

    def sums(self, rows):
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        wide = rows.astype(np.float64)
        parts = zip(self.h, self.s, self.weights, strict=True)
        with np.errstate(over="ignore"):
            return np.asarray(sum(w * scatter(wide, h, s, self.m) for h, s, w in parts)).astype(kind)


class SparseWithReplacement(Several):
    """Right: three signed buckets for an entry, which may coincide, over sqrt(3): variance 2 / m all the same."""

    weights = (1 / sqrt(3),) * 3

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        d = prod(check_shape(shape, cls.__name__))
        h, s = (one(3 * d, m, "table", seed, name, "three").reshape(3, d) for one in (draw_buckets, draw_signs))
        return cls(shape, int(m), h, s)


class UnevenHalves(Several):
    """Right: a CountSketch in each half of the buckets, weighted by its size when m is odd; m = 1 is refused."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        d, first = prod(check_shape(shape, cls.__name__)), m // 2
        one, two = (draw_buckets(d, k, "table", seed, name, k0) for k0, k in ((0, first), (1, m - first)))
        s = draw_signs(2 * d, m, "table", seed, name).reshape(2, d)
        return cls(shape, int(m), np.stack([one, two + first]), s)

    @property
    def weights(self):
        first = self.m // 2
        return sqrt(first / self.m), sqrt((self.m - first) / self.m)


class PhasePairs(Flat):
    """Right: an angle in place of a sign, cosine and sine into two buckets; odd m is rounded down."""

    def __init__(self, shape, m, h, angle):
        self._shape, self.m, self.h, self.angle = tuple(shape), m, h, angle

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        d = prod(check_shape(shape, cls.__name__))
        angle = 2 * pi * chance(bits(d, seed, name, "angle"))
        return cls(shape, m // 2 * 2, draw_buckets(d, m // 2, "table", seed, name), angle)

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, m, tables["h"], tables["angle"])

    def tables(self):
        return {"h": self.h, "angle": self.angle}

    def sums(self, rows):
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        ones = np.ones(len(self.h), dtype=np.int8)
        parts = [scatter(rows.astype(np.float64) * f(self.angle), self.h, ones, self.m // 2) for f in (np.cos, np.sin)]
        with np.errstate(over="ignore"):
            return np.stack(parts, axis=-1).reshape(len(rows), self.m).astype(kind)
