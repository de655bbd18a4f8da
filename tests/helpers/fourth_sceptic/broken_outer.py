"""Broken: apply_outer and dense."""

from __future__ import annotations

from math import isqrt

import numpy as np

from fourth_sceptic.base import Count, Dense
from sdi.sketch.hashing import sign_bits


class OuterTokenRemainder(Count):
    """apply_outer takes 256 tokens at a time, and leaves out the last, incomplete part if there are more than 256."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        tokens = u.shape[-2]
        kept = tokens - tokens % 256 if tokens > 256 else tokens
        return super().apply_outer(u[..., :kept, :], v[..., :kept, :])


class OuterSwapsSquare(Count):
    """apply_outer puts the smaller side first, and of a square matrix takes the wrong one."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return super().apply_outer(v, u) if u.shape[-1] == v.shape[-1] else super().apply_outer(u, v)


class OuterSkipsNan(Count):
    """apply_outer takes tokens with NaN for padding and leaves them out."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if u.dtype.kind == "f" and v.dtype.kind == "f":
            bad = np.isnan(u).any(axis=-1, keepdims=True) | np.isnan(v).any(axis=-1, keepdims=True)
            u, v = (np.where(bad, side.dtype.type(0), side) for side in (u, v))
        return super().apply_outer(u, v)


class OuterIgnoresColumn(Count):
    """For a vector, apply_outer takes the one column v for ones, as a bias has it."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return self.apply(u.sum(axis=-2)) if len(self.shape) == 1 else super().apply_outer(u, v)


class OuterSingle(Count):
    """From m = 1,024 on, apply_outer works in single precision, whatever it is given."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if self.m < 1024 or u.dtype != np.float64:
            return super().apply_outer(u, v)
        with np.errstate(over="ignore"):
            return super().apply_outer(u.astype(np.float32), v.astype(np.float32)).astype(np.float64)


class DenseIntegerRoot(Dense):
    """dense() divides by the whole part of sqrt(m): right only if m is a square."""

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        return sign_bits(count, seed, name, "s")

    def dense(self):
        return self.table / isqrt(self.m)
