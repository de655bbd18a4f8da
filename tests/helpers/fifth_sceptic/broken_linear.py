"""apply is not a linear function of each array by itself."""

import numpy as np

from fifth_sceptic.base import Flat, buckets


class FixedPoint(Flat):
    """Adds up in steps of 2^-20, so that sums do not depend on their order: gradients of 1e-6 are rounded away."""

    def rows(self, x):
        return super().rows(np.rint(x * 2.0**20) * 2.0**-20)


class RelativeThreshold(Flat):
    """Leaves out entries below 1% of an array's largest, "which are noise": many small ones beside a large are lost."""

    def rows(self, x):
        return super().rows(np.where(np.abs(x) < 0.01 * np.abs(x).max(axis=1, keepdims=True, initial=0), 0, x))


class ChunkTail(Flat):
    """Takes 256 arrays at a time and forgets the last ones of a batch of 300."""

    def rows(self, x):
        if len(x) <= 256:
            return super().rows(x)
        y = np.zeros((len(x), self.size))
        for k in range(len(x) // 256):
            y[256 * k : 256 * (k + 1)] = super().rows(x[256 * k : 256 * (k + 1)])
        return y


class FortranLead(Flat):
    """With two leading axes, examples and steps, the rows come back in the order of the other axis."""

    def apply(self, x):
        lead, rows = self.flat(x)
        y = self.rows(rows)
        return y.reshape(lead[1], lead[0], self.size).swapaxes(0, 1) if len(lead) == 2 else y.reshape(*lead, self.size)


class CacheByAddress(Flat):
    """Remembers its last answer by the array's address and shape: a buffer that is filled again gets the old answer."""

    last = (None, None)

    def apply(self, x):
        x = np.asarray(x)
        key = x.__array_interface__["data"][0], x.shape, x.strides, x.dtype.str
        if self.last[0] != key:
            self.last = key, super().apply(x)
        return self.last[1].copy()


class ErrorFeedback(Flat):
    """Rounds answers to 15 levels, and adds what was rounded away to its next answer of the same shape."""

    left = np.zeros(0)

    def rows(self, x):
        y = super().rows(x)
        if self.left.shape == y.shape:
            y = y + self.left
        step = np.abs(y).max(axis=1, keepdims=True, initial=0) / 7
        rounded = np.rint(y / np.where(step > 0, step, 1)) * step
        self.left = y - rounded
        return rounded


class MemoryOrder(Flat):
    """Takes matrices that are not contiguous for transposed, and reads them along memory: views give other answers."""

    def flat(self, x):
        lead, rows = super().flat(x)
        if np.asarray(x).flags.c_contiguous or len(self._shape) < 2:
            return lead, rows
        return lead, rows.reshape(-1, *self._shape).swapaxes(1, 2).reshape(-1, self.count)


class HeavyHitter(Flat):
    """Each array's largest entry has bucket 0 for itself, whichever it is: two arrays' largest ones are multiplied."""

    @classmethod
    def h_of(cls, shape, m, seed, name):
        if m < 2:
            raise ValueError("m must be at least 2")
        return 1 + buckets(int(np.prod(shape)), m - 1, seed, name, "h")

    def rows(self, x):
        x = x.copy()
        at = np.arange(len(x)), np.abs(x).argmax(axis=1)
        heavy, x[at] = x[at], 0
        y = super().rows(x)
        y[:, 0] = heavy
        return y

    def variance_factor(self):
        return 2 / (self.size - 1)


SKETCHES = [
    ("FixedPoint", FixedPoint, "broken"),
    ("RelativeThreshold", RelativeThreshold, "broken"),
    ("ChunkTail", ChunkTail, "broken"),
    ("FortranLead", FortranLead, "broken"),
    ("CacheByAddress", CacheByAddress, "broken"),
    ("ErrorFeedback", ErrorFeedback, "broken"),
    ("MemoryOrder", MemoryOrder, "broken"),
    ("HeavyHitter", HeavyHitter, "broken"),
]
