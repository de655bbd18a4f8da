"""Sketches of a sceptic who had not read the checks: faults of batches, layout and state."""

from __future__ import annotations

from math import prod

import numpy as np
from sceptic_bases import Count, Tensor, broken, floats, scatter


@broken("batch", "The mean of the batch is taken off: what an example gives depends on its neighbours.")
class BatchCentred(Count):
    def of_flat(self, f):
        y = super().of_flat(f)
        return y - y.mean(axis=0) if y.ndim > 1 and len(y) > 1 else y


@broken("batch", "Divides by the number of examples, as a mean loss would.")
class BatchMean(Count):
    def of_flat(self, f):
        return super().of_flat(f) / (max(len(f), 1) if f.ndim > 1 else 1)


@broken("batch", "Works in chunks of 64 examples and leaves out the last, partial one.")
class DropsLastChunk(Count):
    def of_flat(self, f):
        if f.ndim != 2 or len(f) <= 64:
            return super().of_flat(f)
        y = np.zeros((len(f), self.m), dtype=np.result_type(f, np.float32))
        for k in range(len(f) // 64):
            y[64 * k : 64 * k + 64] = super().of_flat(f[64 * k : 64 * k + 64])
        return y


@broken("batch", "With two leading axes, results are put back in the other order.")
class LeadingAxesSwapped(Count):
    def of_flat(self, f):
        if f.ndim != 3:
            return super().of_flat(f)
        y = super().of_flat(f.reshape(-1, f.shape[-1]))
        return y.reshape(f.shape[1], f.shape[0], self.m).swapaxes(0, 1)


@broken("batch", "squeeze() takes the batch axis away where there is one example.")
class Squeezes(Count):
    def of_flat(self, f):
        return np.squeeze(super().of_flat(f))


@broken(
    "batch", "Bucket sums are differences of one running sum over the batch: a large or NaN example spoils the next."
)
class RunningSums(Count):
    def of_flat(self, f):
        order = np.argsort(self.h, kind="stable")
        ends = np.searchsorted(self.h[order], np.arange(self.m), side="right")
        x = (f * self.s.astype(f.dtype))[..., order].reshape(-1, f.shape[-1])
        total = np.concatenate([np.zeros(1, dtype=x.dtype), np.cumsum(x.ravel(), dtype=x.dtype)])
        at = np.arange(len(x))[:, None] * f.shape[-1] + np.concatenate([[0], ends])[None]
        return np.diff(total[at], axis=-1).reshape(*f.shape[:-1], self.m)


@broken("batch", "No examples give one row of zeros, not none.", "nothing is said of empty batches but the shapes")
class EmptyGivesOne(Count):
    def of_flat(self, f):
        return super().of_flat(f) if f.size else np.zeros((1, self.m), dtype=np.result_type(f, np.float32))


@broken("layout", "ravel('K') reads a transposed array in the order of its memory.")
class RavelsMemory(Count):
    def apply(self, x):
        x = floats(self._check(x))
        if x.ndim == len(self.shape):
            return self.of_flat(x.ravel("K"))
        lead = x.shape[: x.ndim - len(self.shape)]
        rows = [row.ravel("K") for row in x.reshape(prod(lead), *self.shape)] or [np.zeros(prod(self.shape))]
        return self.of_flat(np.stack(rows)[: prod(lead)].astype(x.dtype)).reshape(*lead, self.m)


@broken("layout", "Signs are multiplied into the argument itself.")
class WritesToArgument(Count):
    def of_flat(self, f):
        f *= self.s.astype(f.dtype)
        return scatter(f, self.h, np.ones_like(self.s), self.m)


@broken("layout", "apply_outer multiplies signs into the caller's u.")
class WritesToTokens(Tensor):
    def apply_outer(self, u, v):
        u, v = (floats(side) for side in self._check_pair(u, v))
        u *= self.s.astype(u.dtype)
        return self.join(scatter(u, self.h, np.ones_like(self.s), self.m), scatter(v, self.k, self.t, self.m))


@broken("state", "Results stand in a buffer that is kept: the next call overwrites them.")
class ReusesBuffer(Count):
    def of_flat(self, f):
        y, key = super().of_flat(f), (f.shape[:-1], f.dtype)
        self.held = getattr(self, "held", {})
        buffer = self.held.setdefault(key, np.empty_like(y))
        buffer[...] = y
        return buffer


@broken("state", "The scale is calibrated on the first batch that comes by, and kept.")
class CalibratesOnFirst(Count):
    def of_flat(self, f):
        y = super().of_flat(f)
        if not hasattr(self, "gain"):
            norms = np.linalg.norm(y.astype(np.float64)), np.linalg.norm(f.astype(np.float64))
            self.gain = norms[1] / norms[0] if norms[0] else 1.0
        return y * np.asarray(self.gain, dtype=y.dtype)


@broken("state", "Results are cached by shape and sum of the argument: two gradients with one sum get one sketch.")
class CachesBySum(Count):
    def of_flat(self, f):
        self.held = getattr(self, "held", {})
        key = (f.shape, f.dtype, float(f.sum()))
        if key not in self.held:
            self.held[key] = super().of_flat(f)
        return self.held[key].copy()


@broken("state", "Every call moves the buckets on by one: the steps of a loop do not sum to the gradient's sketch.")
class MovesOn(Count):
    def of_flat(self, f):
        self.calls = getattr(self, "calls", -1) + 1
        return np.roll(super().of_flat(f), self.calls, axis=-1)
