"""Broken: magnitudes, precision, batches, leading axes and memory layout."""

from __future__ import annotations

import numpy as np
import torch

from fourth_sceptic.base import Count


class DropsRelativeSmall(Count):
    """Entries below a thousandth of the largest are left out, as if they were noise."""

    def sums(self, rows):
        size = np.abs(rows)
        most = size.max(axis=1, keepdims=True, initial=0)
        return super().sums(np.where(size * 1000 < most, rows.dtype.type(0), rows))


class HalfPrecisionForBatches(Count):
    """Above 256 arrays, single precision goes through half precision."""

    def sums(self, rows):
        if len(rows) > 256 and rows.dtype == np.float32:
            with np.errstate(over="ignore"):
                rows = rows.astype(np.float16).astype(np.float32)
        return super().sums(rows)


class LastChunkLost(Count):
    """Above 1,024 arrays they are taken 1,024 at a time, and the last, incomplete part stays zero."""

    def sums(self, rows):
        if len(rows) <= 1024:
            return super().sums(rows)
        parts = [super(LastChunkLost, self).sums(rows[k : k + 1024]) for k in range(0, len(rows) - 1023, 1024)]
        y = np.zeros((len(rows), self.m), dtype=parts[0].dtype)
        y[: 1024 * len(parts)] = np.concatenate(parts)
        return y


class CumsumBuckets(Count):
    """Sums of buckets are differences of one running sum, in the dtype given: a large entry drowns the others."""

    def sums(self, rows):
        order = np.argsort(self.h, kind="stable")
        signed = (rows.astype(np.int64) if rows.dtype.kind in "iub" else rows) * self.s
        running = np.cumsum(signed[:, order], axis=1, dtype=signed.dtype)
        running = np.concatenate([np.zeros_like(running[:, :1]), running], axis=1)
        ends = np.searchsorted(self.h[order], np.arange(self.m + 1))
        with np.errstate(invalid="ignore"):
            return running[:, ends[1:]] - running[:, ends[:-1]]


class FixedPointSums(Count):
    """Sums are made in whole multiples of 2^-40, so that their order cannot matter: gradients of 1e-9 lose digits."""

    def sums(self, rows):
        if rows.dtype.kind != "f" or not np.isfinite(rows).all():
            return super().sums(rows)
        with np.errstate(invalid="ignore"):
            whole = np.rint(rows.astype(np.float64) * 2.0**40).astype(np.int64)
        return (super().sums(whole) * 2.0**-40).astype(rows.dtype)


class InfinityClipped(Count):
    """Infinity is replaced by the largest number there is; NaN is kept."""

    def sums(self, rows):
        if rows.dtype.kind == "f":
            most = np.finfo(rows.dtype).max
            rows = np.clip(rows, -most, most)
        return super().sums(rows)


class BadRowsZeroed(Count):
    """Of several arrays, one with NaN or infinity is replaced by zeros."""

    def sums(self, rows):
        if len(rows) > 1 and rows.dtype.kind == "f":
            rows = np.where(np.isfinite(rows).all(axis=1, keepdims=True), rows, rows.dtype.type(0))
        return super().sums(rows)


class RavelA(Count):
    """The argument is flattened in the order of its memory when that is Fortran's."""

    def rows(self, x):
        return x.ravel(order="A").reshape(-1 if x.size else 0, len(self.h))


class NegativeStridesCrash(Count):
    """The argument is handed to torch as it lies in memory: a flipped view is an error."""

    def rows(self, x):
        x = torch.from_numpy(x if x.flags.writeable or x.size == 0 else x.copy())
        return x.reshape(-1 if x.numel() else 0, len(self.h)).numpy()


class LeadAxesFortran(Count):
    """Two leading axes or more are filled in reverse order: the arrays come out in other places."""

    def answer(self, y, lead):
        if len(lead) < 2:
            return super().answer(y, lead)
        return np.moveaxis(y.reshape(*lead[::-1], self.m), -1, 0).T


class SqueezesBatchOfOne(Count):
    """A leading axis of one array is dropped: (1, *shape) gives (size,)."""

    def answer(self, y, lead):
        return y.reshape(*(k for k in lead if k != 1), self.m)
