"""Broken: scale, mean and claimed variance."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from fourth_sceptic.base import Count, Tensor


class DegreesOfFreedom(Count):
    """Scaled by sqrt(m / (m - 1)), as if a degree of freedom were lost: norms are 17% too large at m = 7."""

    @property
    def factor(self):
        return sqrt(self.m / max(self.m - 1, 1))


class Centred(Count):
    """The mean of the entries is taken off first: linear, but the part along the ones is lost."""

    def sums(self, rows):
        rows = rows.astype(np.float64) if rows.dtype.kind in "iub" else rows
        return super().sums(rows - rows.mean(axis=1, keepdims=True))


class ChunkRemainderDropped(Count):
    """More than 1,024 entries are taken 1,024 at a time, and the last, incomplete part is left out."""

    def sums(self, rows):
        d = rows.shape[1]
        kept = d - d % 1024 if d > 1024 else d
        return super().sums(np.where(np.arange(d) < kept, rows, rows.dtype.type(0) * rows))  # NaN stays NaN


class TensorClaim(Tensor):
    """TensorSketch that claims 4 / m: flat matrices of rank one have nearly 6 / m."""

    def variance_factor(self):
        return (4 if len(self.shape) == 2 else 2) / self.m


class ClaimPaddedM(Count):
    """The claim is 2 / p with p the power of two from m on: too small by nearly half above a power of two."""

    def variance_factor(self):
        return 2 / (1 << (self.m - 1).bit_length())


class ClaimFinitePopulation(Count):
    """The claim has the factor (D - m) / (D - 1) of sampling without replacement: too small unless D is large."""

    def variance_factor(self):
        d = prod(self.shape)
        return 2 / self.m * (max(d - self.m, 1) / max(d - 1, 1))


class ClaimFromOwnTable(Count):
    """The claim is the share of pairs that meet in this draw: a lucky draw claims too little, at (8, 6) even 0."""

    def variance_factor(self):
        load, d = np.bincount(self.h), prod(self.shape)
        return 2 * float((load * (load - 1)).sum()) / max(d * (d - 1), 1)
