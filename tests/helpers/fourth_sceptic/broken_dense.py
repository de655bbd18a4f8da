"""Broken: dense projections, transforms and masks."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from fourth_sceptic.base import Dense, Mask, chance
from sdi.sketch.hashing import bits, normals, sign_bits
from sdi.sketch.protocol import check_m, check_shape
from sdi.sketch.shipped.hadamard import HadamardSketch


class VerySparse(Dense):
    """One entry in sqrt(D) is not zero, as Li et al. have it, but the claim is 2 / m: one number has far more."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        root = sqrt(prod(shape))
        there = chance(bits(count, seed, name, "there")) < 1 / root
        return np.where(there, sign_bits(count, seed, name, "s") * sqrt(root), 0).astype(np.float32)


class ClippedNormals(Dense):
    """Normal numbers are cut at 2.3 and not rescaled: norms are 4% too small."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        return np.clip(normals(count, seed, name, "clipped"), -2.3, 2.3)


class SharedRadius(Dense):
    """Each row is random signs times one normal number: the mean is right, the variance 8 / m and not 2 / m."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        radius = normals(m, seed, name, "radius")
        return (sign_bits(count, seed, name, "s").reshape(m, -1) * radius[:, None]).ravel()


class HadamardRowSignsOnly(HadamardSketch):
    """Hadamard's transform with random signs for the rows, but none for the columns: one flat row is not spread."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        whole = HadamardSketch.draw(shape, m, seed=seed, name=name)
        return cls(whole.out_signs, np.ones_like(whole.in_signs), whole.out_at, whole.in_at, whole.of)

    @classmethod
    def enumerate_all(cls, shape, m):
        """The draws of this class: those of the whole transform that have no signs for the columns."""
        right = [(p, one) for p, one in HadamardSketch.enumerate_all(shape, m) if (one.in_signs == 1).all()]
        total = sum(p for p, _ in right)
        for p, one in right:
            yield p / total, cls(one.out_signs, one.in_signs, one.out_at, one.in_at, one.of)


class MaskWithReplacement(Mask):
    """Entries are chosen with replacement, with the claim (D - m) / m of a choice without."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        shape = check_shape(shape, cls.__name__)
        d = prod(shape)
        return cls(shape, (bits(min(m, d), seed, name, "mask") % np.uint64(d)).astype(np.int64))
