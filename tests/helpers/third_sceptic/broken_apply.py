"""Broken: the tables are right, but apply depends on layout, batch, dtype, history or the values."""

from math import prod

import numpy as np

from third_sceptic.base import Count, Dense, scatter


class BufferedAdd(Count):
    """y[:, h] += s x, which counts only the last of the entries of a bucket: most are lost where D > m."""

    def rows(self, x):
        y = np.zeros((len(x), self.m))
        y[:, self.t["h"]] += x * self.t["s"]
        return y


class SparseShortcut(Count):
    """Rows with under 1% non-zeros, as of embeddings, take a shortcut that assigns instead of adding: collisions are
    lost. For 40 of 5,000 entries and m = 16 more than half of them."""

    def rows(self, x):
        y = super().rows(x)
        for k, row in enumerate(x):
            (at,) = np.nonzero(row)
            if 1 < len(at) < len(row) / 100:
                y[k] = 0
                y[k, self.t["h"][at]] = row[at] * self.t["s"][at]
        return y


class RemembersById(Count):
    """The last answer is kept for the same array object: a buffer that is refilled in place gets the old answer."""

    last = None

    def apply(self, x):
        if self.last is not None and self.last[0] is x:
            return self.last[1].copy()
        y = super().apply(x)
        self.last = (x, y)
        return y.copy()


class RemembersBySum(Count):
    """Answers are kept by the shape and the sum, rounded to 6 places: all batches of small gradients are one."""

    def apply(self, x):
        x = self._check(x)
        known = self.__dict__.setdefault("known", {})
        key = (x.shape, round(float(np.sum(x)), 6))
        if key not in known:
            known[key] = super().apply(x)
        return known[key].copy()


class WholeChunksOnly(Count):
    """Batches of more than 512 are done in chunks of 512, and the rest of the last chunk is left at zero."""

    def rows(self, x):
        if len(x) <= 512:
            return super().rows(x)
        y = np.zeros((len(x), self.m))
        for k in range(0, len(x) - 511, 512):
            y[k : k + 512] = super().rows(x[k : k + 512])
        return y


class ReversedChunks(Count):
    """Batches of more than 1,000 go in chunks that are put together from the back: rows get each other's sketch."""

    def rows(self, x):
        if len(x) <= 1000:
            return super().rows(x)
        return np.concatenate([super(ReversedChunks, self).rows(x[k : k + 1000]) for k in range(0, len(x), 1000)][::-1])


class HalfForLargeBatches(Count):
    """Batches of more than 1,024 are rounded to float16 to save memory: gradients below 1e-8 become zero."""

    def rows(self, x):
        return super().rows(x.astype(np.float16).astype(np.float64) if len(x) > 1024 else x)


class OrderInMemory(Count):
    """Flattens in the order of memory if a matrix is a transposed one (Fortran order): another sketch for weight.T."""

    def apply(self, x):
        x = self._check(x)
        if x.ndim == 2 == len(self.shape) and x.flags.f_contiguous and not x.flags.c_contiguous:
            x = x.ravel(order="K").reshape(self.shape)
        return super().apply(x)


class SwapsLeadingAxes(Count):
    """With two leading axes, examples by steps, the answers come back as steps by examples, in the right shape."""

    def apply(self, x):
        y = super().apply(x)
        if y.ndim == 3:
            y = y.swapaxes(0, 1).reshape(y.shape)
        return y


class CalibratesOnce(Count):
    """The first batch sets a range, ten times its largest entry, to which all later ones are clipped."""

    top = None

    def apply(self, x):
        x = self._check(x)
        if self.top is None and x.size:
            self.top = 10 * float(np.max(np.abs(x)))
        return super().apply(x if self.top is None else np.clip(x, -self.top, self.top))


class LowestNumber(Count):
    """np.maximum(x, the lowest float) guards against underflow and swallows -inf: a diverged gradient looks finite."""

    def rows(self, x):
        return super().rows(np.maximum(x, np.finfo(np.float64).min / 2**20))


class NanRowsAreZero(Count):
    """Arrays of a batch that hold a NaN are set to zero, 'to be robust': broken examples have influence 0."""

    def rows(self, x):
        return super().rows(np.where(np.isnan(x).any(axis=1, keepdims=True), 0.0, x))


class SumsInInt32(Count):
    """Integers are summed in 32 bits: three numbers of 1e9 in a bucket wrap."""

    def apply(self, x):
        x = self._check(x)
        if x.dtype.kind not in "iu":
            return super().apply(x)
        lead = x.shape[: x.ndim - len(self.shape)]
        return super().apply(x).astype(np.int64).astype(np.int32).astype(np.float64).reshape(*lead, self.size)


class BytesStayBytes(Count):
    """Unsigned integers keep their dtype: a bucket of -3 comes out as 253."""

    def apply(self, x):
        x = self._check(x)
        y = super().apply(x)
        return y.astype(np.int64).astype(x.dtype) if x.dtype.kind == "u" else y


class LittleEndianOnly(Count):
    """Reads the bytes of 8-byte floats as the machine's own: arrays of a big-endian file come out as garbage."""

    def apply(self, x):
        x = self._check(x)
        if x.dtype.kind == "f" and x.dtype.itemsize == 8:
            x = np.frombuffer(np.ascontiguousarray(x).tobytes(), dtype=np.float64).reshape(x.shape)
        return super().apply(x)


class DropsSmallEntries(Count):
    """Entries below a hundredth of the largest of their array are dropped, as gradient compression does."""

    def rows(self, x):
        top = np.max(np.abs(x), axis=1, keepdims=True, initial=0)
        return super().rows(np.where(np.abs(x) < 0.01 * top, 0, x))


class AddsEpsilon(Count):
    """1e-8 is added to every number against division by zero later: gradients of 1e-7 are wrong by 10%."""

    def rows(self, x):
        return super().rows(x) + 1e-8


class CentresLargeBatches(Count):
    """From 256 arrays on, the mean of the batch is taken away, as a whitening: examples depend on each other."""

    def rows(self, x):
        return super().rows(x - x.mean(axis=0) if len(x) >= 256 else x)


class WritesAndRestores(Dense):
    """Scales a float64 argument by 1 / 3 in place and back by 3: a part of the user's numbers change in the last bit,
    and other threads see them a third as large."""

    def apply(self, x):
        x = self._check(x)
        if x.dtype == np.float64 and x.flags.writeable:
            x *= 1 / 3
            y = super().apply(x) * 3
            x *= 3
            return y
        return super().apply(x)


class SkipsRepeats(Count):
    """Equal arrays of a batch, as of a repeated example, are sketched once; the copies are left at zero."""

    def rows(self, x):
        y = super().rows(x)
        if len(x) > 1:
            _, first = np.unique(x, axis=0, return_index=True)
            y[np.setdiff1d(np.arange(len(x)), first)] = 0
        return y


class HalfForLongRows(Count):
    """Arrays of more than 10,000 entries are rounded to float16: a part in a thousand is wrong, 1e-8 becomes 0."""

    def rows(self, x):
        return super().rows(x.astype(np.float16).astype(np.float64) if x.shape[1] > 10_000 else x)


class OneScratch(Count):
    """All answers are views of one scratch array per sketch, for batches of one: the next call overwrites the last."""

    def rows(self, x):
        y = scatter(x, self.t["h"], self.t["s"], self.m)
        if len(x) != 1:
            return y
        kept = self.__dict__.setdefault("scratch", np.zeros((1, self.m)))
        kept[:] = y
        return kept


class MovedByThePast(Count):
    """Keeps a running mean over calls to 'centre': every answer is moved by 1% of the mean of those before."""

    def rows(self, x):
        y = super().rows(x)
        past = self.__dict__.get("past", 0.0)
        if len(y):
            self.past = 0.9 * past + 0.1 * y.mean(axis=0)
        return y - 0.01 * past


class EqualRowsShortcut(Count):
    """A matrix whose rows are all equal, as of a broadcast parameter, takes a shortcut that comes out sqrt(d_out) times
    too small."""

    def rows(self, x):
        if len(self.shape) == 1 or self.shape[0] == 1 or not len(x):
            return super().rows(x)
        X = x.reshape(len(x), self.shape[0], prod(self.shape[1:]))
        same = (X[:, :1] == X).all(axis=(1, 2)) & (X[:, 0, 0] != 0)
        y = super().rows(x)
        y[same] /= np.sqrt(self.shape[0])
        return y
