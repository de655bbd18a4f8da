"""Broken: variances that are larger than claimed, and claims that are none."""

from __future__ import annotations

from math import inf, nan, prod, sqrt

import numpy as np

from new_sceptic.bases import Dense, Entries, signs, uniform
from sdi.sketch import bits


class WholeDivision(Entries):
    """2 // m."""

    def variance_factor(self):
        return 2 // self.m


class NoNumber(Entries):
    def variance_factor(self):
        return nan


class Anything(Entries):
    def variance_factor(self):
        return inf


class HalfTheClaim(Entries):
    """1 / m for a CountSketch."""

    def variance_factor(self):
        return 1 / self.m


class TwoOverSquare(Entries):
    """2 / m^2."""

    def variance_factor(self):
        return 2 / self.m**2


class CommonGain(Entries):
    """A random factor for the whole draw, of mean square 1: at wide m it is most of the error."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        made.s = made.s * sqrt((0.8, 1.2)[int(bits(1, seed, name, "gain")[0] % 2)])
        return made


class Laplace(Dense):
    """Entries of a Laplace distribution, with the claim of a Gaussian: too small for single entries."""

    @classmethod
    def table(cls, m, d, *words):
        u = uniform(m * d, *words) + 2.0**-54
        return (-np.log(u) * signs(m * d, *words)).reshape(m, d) / sqrt(2 * m)


class FewNonzeros(Dense):
    """One number in 20 is not zero, with the claim of a Gaussian."""

    @classmethod
    def table(cls, m, d, *words):
        kept = uniform(m * d, *words) < 1 / 20
        return (kept * signs(m * d, *words)).reshape(m, d) * sqrt(20 / m)


def hadamard(p):
    H = np.ones((1, 1))
    while len(H) < p:
        H = np.block([[H, H], [H, -H]])
    return H


class HadamardWithoutSigns(Dense):
    """Random rows of a Hadamard matrix, but no signs before it."""

    @classmethod
    def table(cls, m, d, *words):
        p = 1 << (d - 1).bit_length()
        if p > 1024:
            raise ValueError(f"at most 1024 entries, got {d}")
        return hadamard(p)[(bits(m, *words) % np.uint64(p)).astype(np.int64), :d] / sqrt(m)


class HadamardOfD(Dense):
    """A Hadamard matrix of the padded size, scaled by the size itself."""

    @classmethod
    def table(cls, m, d, *words):
        p = 1 << (d - 1).bit_length()
        if p > 1024:
            raise ValueError(f"at most 1024 entries, got {d}")
        rows = hadamard(p)[(bits(m, *words) % np.uint64(p)).astype(np.int64), :d]
        return rows * signs(d, *words) / sqrt(m) * sqrt(d / p)


class TwoSides(Dense):
    """A projection of the rows times one of the columns, with the claim of a single projection."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d, e = shape if len(shape) == 2 else (shape[0], 1)
        k = max(int(sqrt(m)), 1)
        if k * k * d * e > 1 << 22:
            raise ValueError(f"shape {shape} is too large")
        A, B = (signs(k * n, seed, name, w).reshape(k, n) for n, w in ((d, "A"), (e, "B")))
        return cls(shape, k * k, np.kron(A, B) / k)


class SquareRootOfM(Dense):
    """The same with a right claim, scaled by m where k^2 numbers are given."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = TwoSides.draw(shape, m, seed=seed, name=name)
        return cls(shape, made.m, made.S * sqrt(made.m / m))

    def variance_factor(self):
        return (1 + 2 / sqrt(self.m)) ** 2 - 1


class MaskUpsideDown(Dense):
    """m entries of d, scaled by the root of m / d in place of d / m."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        if m * d > 1 << 22:
            raise ValueError(f"shape {shape} is too large")
        S = np.eye(d)[(bits(m, seed, name) % np.uint64(d)).astype(np.int64)]
        return cls(shape, m, S * sqrt(m / d))

    def variance_factor(self):
        return prod(self.shape) / self.m


class RepeatedRows(Dense):
    """Half of the rows are drawn, each stands twice."""

    @classmethod
    def table(cls, m, d, *words):
        return super().table(m, d, *words)[np.arange(m) // 2]
