"""Sketches of a sceptic who had not read the checks: faults of scale."""

from __future__ import annotations

from math import isqrt, prod, sqrt

import numpy as np
from sceptic_bases import Count, Dense, broken, hadamard_rows, padded, uniform
from sceptic_right_too import HadamardReplaced

from sdi.sketch import bits
from sdi.sketch.hashing import distinct, normals
from sdi.sketch.protocol import matrix_shape


@broken("scale", "Signs without 1/sqrt(m): norms are sqrt(m) too large.")
class ScaleMissing(Dense):
    @classmethod
    def scaling(cls, shape, m):
        return 1.0


@broken("scale", "1/m in place of 1/sqrt(m).")
class ScaleSquared(Dense):
    @classmethod
    def scaling(cls, shape, m):
        return 1 / m


@broken("scale", "1/int(sqrt(m)): right where m is a square, else too large.")
class ScaleIntegerRoot(Dense):
    @classmethod
    def scaling(cls, shape, m):
        return 1 / isqrt(m)


@broken("scale", "The factor sqrt(d_out / d_in) is 1 for square matrices only.")
class ScaleOfSquares(Dense):
    @classmethod
    def scaling(cls, shape, m):
        d1, d2 = matrix_shape(shape) if len(shape) > 1 else (1, 1)
        return sqrt(d1 / d2 / m)


@broken("scale", "Vectors are scaled by 1/m, matrices by 1/sqrt(m).")
class ScaleOfVectors(Dense):
    @classmethod
    def scaling(cls, shape, m):
        return 1 / m if len(shape) == 1 else 1 / sqrt(m)


@broken("scale", "A Hadamard transform scaled for d in place of the padded size: right only where D is a power of two.")
class ScaleUnpadded(HadamardReplaced):
    @classmethod
    def scaling(cls, shape, m):
        return sqrt(prod(shape) / padded(prod(shape)) / m)


@broken("scale", "The transform is cut to the first d of its padded rows, which no longer are an isometry: biased.")
class HadamardCut(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        d = prod(shape)
        rows = (bits(m, seed, name, "rows") % np.uint64(d)).astype(np.int64)
        return hadamard_rows(rows, d)

    def variance_factor(self):
        return max(prod(self.shape) - 1, 2) / self.size


@broken("scale", "Kept entries are multiplied by D/m, not by its root.")
class MaskScaleSquared(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        k = min(int(m), d)
        return cls(shape, np.eye(d)[distinct(k, d, seed, name)], d / k)

    def variance_factor(self):
        return (prod(self.shape) - self.size) / self.size


@broken("scale", "Duplicates of a sample are thrown away, but the scale still counts them: norms are too low.")
class MaskOfUniques(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        at = np.unique((bits(m, seed, name) % np.uint64(d)).astype(np.int64))
        return cls(shape, np.eye(d)[at], sqrt(d / m))

    def variance_factor(self):
        return prod(self.shape) / self.size


@broken("scale", "Rows are centred, as one standardises data: the mean of a gradient is lost.")
class RowsCentred(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        g = normals(m * prod(shape), seed, name).astype(np.float64).reshape(m, -1)
        return g - g.mean(axis=1, keepdims=True)


@broken("scale", "A truncated normal (at two sigma) without correction of its variance: squared norms are 23% low.")
class TruncatedNormal(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        from scipy.special import ndtr, ndtri

        u = uniform(m * prod(shape), seed, name)
        return ndtri(ndtr(-2.0) + u * (ndtr(2.0) - ndtr(-2.0))).reshape(m, -1)


@broken("scale", "Parameters of at most m/2 entries are written twice without 1/sqrt(2): small ones count double.")
class SmallTwice(Count):
    keeps_small = False

    def of_flat(self, f):
        d = f.shape[-1]
        if 2 * d > self.m:
            return super().of_flat(f)
        y = np.zeros((*f.shape[:-1], self.m), dtype=np.result_type(f, np.float32))
        y[..., :d], y[..., d : 2 * d] = f, f
        return y
