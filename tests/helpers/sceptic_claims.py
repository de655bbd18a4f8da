"""Sketches of a sceptic who had not read the checks: claims that are too small."""

# ruff: noqa: RUF005  (as the sceptic wrote them)

from __future__ import annotations

from math import prod, sqrt

import numpy as np
from sceptic_bases import Count, Dense, Tensor, broken, hadamard_rows, padded, scatter, uniform
from sceptic_right import ContiguousHonest, NormalSignsHonest
from sceptic_right_too import KroneckerCount, VerySparseHonest, XorTensorHonest
from sceptic_scale import MaskScaleSquared

from sdi.sketch import bits
from sdi.sketch.hashing import signs_of
from sdi.sketch.protocol import matrix_shape


@broken("claim", "Two buckets per entry are no better than one in the worst case, but half is claimed.")
class TwoBucketsClaim(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m % 2:
            raise ValueError(f"m must be even, got {m}")
        d, half = prod(shape), m // 2
        h = (bits(2 * d, seed, name, "h") % np.uint64(half)).astype(np.int64).reshape(2, d) + [[0], [half]]
        return cls(shape, m, h, signs_of(bits(2 * d, seed, name, "s")).astype(np.int64).reshape(2, d))

    def of_flat(self, f):
        return sum(scatter(f, h, s, self.m) for h, s in zip(self.h, self.s, strict=True)) / sqrt(2)

    def variance_factor(self):
        return 1 / self.m


@broken("claim", "A TensorSketch that claims CountSketch's 2/m: flat matrices of rank one have three times as much.")
class TensorClaimsCount(Tensor):
    def variance_factor(self):
        return 2 / self.m


@broken("claim", "A TensorSketch that claims 6/m at every m: the part in 1/m^2 is left out.")
class TensorClaimsSix(Tensor):
    def variance_factor(self):
        return 6 / self.m


@broken(
    "claim", "XOR in place of addition costs 8/m (both diagonals of a rectangle meet at once); 6/m + 4/m^2 is claimed."
)
class XorTensor(XorTensorHonest):
    def variance_factor(self):
        return 4 / self.m**2 + 6 / self.m


@broken("claim", "All pairs of two sketched sides cost about 4/sqrt(m); 2/size is claimed.")
class KroneckerClaimsCount(KroneckerCount):
    def variance_factor(self):
        return 2 / self.size


@broken("claim", "The claim adds the sides' errors and forgets their product: 2/k1 + 2/k2.")
class KroneckerWithoutProduct(KroneckerCount):
    def variance_factor(self):
        return sum(0.0 if k == d else 2 / k for k, d in zip(self.widths, self.sides, strict=True))


@broken("claim", "Neighbours are always summed, so nearby entries have a variance of 2; 2/m is claimed.")
class ContiguousClaim(ContiguousHonest):
    def variance_factor(self):
        return 2 / self.m


@broken("claim", "Normal numbers in place of signs: single entries have a variance of 2; 2/m is claimed.")
class NormalSignsClaim(NormalSignsHonest):
    def variance_factor(self):
        return 2 / self.m


@broken("claim", "Rare large entries: single coordinates have 7/m; 2/m is claimed.")
class VerySparseClaim(VerySparseHonest):
    def variance_factor(self):
        return 2 / self.size


@broken("claim", "Laplace entries have a fourth moment of 6: single coordinates have 5/m; 2/m is claimed.")
class LaplaceEntries(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        n = m * prod(shape)
        return (-np.log(uniform(n, seed, name)) * signs_of(bits(n, seed, name, "s")) / sqrt(2)).reshape(m, -1)


@broken("claim", "A mask claims 2/m, which holds for spread gradients, not for those with few large entries.")
class MaskClaim(MaskScaleSquared):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        made.scale = sqrt(made.scale)
        return made

    def variance_factor(self):
        return 2 / self.size


@broken("claim", "A mask drawn with replacement has (D - 1)/m; it claims (D - m)/m, that of one without.")
class MaskWithReplacement(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        at = (bits(m, seed, name) % np.uint64(d)).astype(np.int64)
        return cls(shape, np.eye(d)[at], sqrt(d / m))

    def variance_factor(self):
        return max(prod(self.shape) - self.size, 0) / self.size


@broken("claim", "The claim has the finite-population factor (1 - m/D) of a sample; a CountSketch does not have it.")
class FinitePopulation(Count):
    def variance_factor(self):
        return 2 / self.m * max(0.0, 1 - self.m / prod(self.shape))


@broken(
    "claim", "Hadamard rows are sampled without random signs: smooth gradients lie in one row, the claim 2/m fails."
)
class HadamardWithoutSigns(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        d = prod(shape)
        return hadamard_rows((bits(m, seed, name) % np.uint64(padded(d))).astype(np.int64), d)


@broken("claim", "The first m Hadamard rows, not random ones: some pairs of entries always meet.")
class HadamardFirstRows(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        return hadamard_rows(np.arange(m), prod(shape)) * signs_of(bits(prod(shape), seed, name, "s"))


@broken("claim", "Signs of rows times signs of columns cost up to 8/m; 2/m, that of independent signs, is claimed.")
class HadamardBothSides(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        d1, d2 = matrix_shape(shape)
        rows = (bits(m, seed, name, "rows") % np.uint64(padded(d1 * d2))).astype(np.int64)
        s, t = signs_of(bits(d1, seed, name, "out")), signs_of(bits(d2, seed, name, "in"))
        return hadamard_rows(rows, d1 * d2) * np.outer(s, t).ravel()


@broken("claim", "A Toeplitz matrix without signs on its columns: the rows see shifts of one another, errors add up.")
class ToeplitzWithoutSigns(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        d = prod(shape)
        c = signs_of(bits(d + m - 1, seed, name, "c")).astype(np.float64)
        return c[np.arange(d)[None] - np.arange(m)[:, None] + m - 1]


@broken("claim", "Half of the rows are drawn and used twice: unbiased, but with 4/m in place of 2/m.")
class RowsTwice(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        half = super().matrix(shape, (m + 1) // 2, seed, name)
        return np.concatenate([half, half])[:m]


@broken("claim", "No variance is claimed at all.")
class ClaimsZero(Count):
    def variance_factor(self):
        return 0.0


@broken("claim", "The claim is not a number: 0/0.")
class ClaimsNaN(Count):
    def variance_factor(self):
        return float("nan")


@broken("claim", "The claim is 1/m: right for orthogonal gradients, half of what a norm has.")
class ClaimsHalf(Count):
    def variance_factor(self):
        return 1 / self.m
