"""Sketches of a sceptic who had not read the checks: faults of dtypes, shapes and sizes."""

from __future__ import annotations

from math import prod

import numpy as np
from sceptic_bases import Count, Dense, Tensor, broken, flat_of, floats, padded, scatter


@broken("dtype", "Works in float16 inside.")
class HalfInside(Count):
    def of_flat(self, f):
        return super().of_flat(f.astype(np.float16)).astype(np.result_type(f, np.float32))


@broken("dtype", "Works in float32 inside, also for float64: half of the digits are lost, and 1e39 is infinite.")
class SingleInside(Count):
    def of_flat(self, f):
        with np.errstate(over="ignore"):
            return super().of_flat(f.astype(np.float32)).astype(np.result_type(f, np.float32))


@broken("dtype", "The result has the argument's dtype: for whole numbers the scaled sums are cut off.")
class CutsIntegers(Dense):
    def apply(self, x):
        return super().apply(x).astype(np.asarray(x).dtype)


@broken("dtype", "Float32 is squared inside to find a common exponent: 1e25 overflows, and the result is NaN.")
class OverflowsInside(Count):
    def of_flat(self, f):
        if f.dtype != np.float32:
            return super().of_flat(f)
        with np.errstate(over="ignore", invalid="ignore"):
            norm = np.sqrt((f * f).sum(axis=-1, keepdims=True, dtype=np.float32))
            unit = np.divide(f, norm, out=np.zeros_like(f), where=norm > 0)
            return super().of_flat(unit) * norm


@broken("dtype", "8-bit integers are summed in 8 bits and wrap around.")
class NarrowIntegers(Count):
    def apply(self, x):
        x = self._check(x)
        if x.dtype != np.int8:
            return super().apply(x)
        f = flat_of(x, self.shape)
        y = np.zeros((*f.shape[:-1], self.m), dtype=np.int8)
        np.add.at(y, (..., self.h), f * self.s.astype(np.int8))
        return y


@broken("shape", "Matrices with a single row or column take a short way, without signs.")
class ThinUnsigned(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        if len(shape) == 2 and 1 in shape:
            made.s = np.abs(made.s)
        return made


@broken("shape", "Square matrices are taken for symmetric: the lower triangle is never read.")
class SquaresSymmetric(Count):
    def apply(self, x):
        x = floats(self._check(x))
        if len(self.shape) == 2 and self.shape[0] == self.shape[1]:
            x = 2 * np.triu(x) - np.triu(np.tril(x))
        return self.of_flat(flat_of(x, self.shape))


@broken("shape", "Entries are taken in pairs; where their number is odd, the last is left out.")
class OddEntryLost(Count):
    def of_flat(self, f):
        even = f.shape[-1] // 2 * 2
        return scatter(f[..., :even], self.h[:even], self.s[:even], self.m)


@broken("shape", "At most 10,000 entries are read.")
class ReadsTenThousand(Count):
    def of_flat(self, f):
        return scatter(f[..., :10_000], self.h[:10_000], self.s[:10_000], self.m)


@broken("shape", "At odd m, a real transform without its length gives m - 1 numbers, filled up with a zero.")
class OddWidth(Tensor):
    def join(self, a, b):
        y = np.fft.irfft((np.fft.rfft(a) * np.fft.rfft(b)).sum(axis=-2)) if self.m > 1 else (a * b).sum(axis=-2)
        return np.pad(y, [(0, 0)] * (y.ndim - 1) + [(0, self.m - y.shape[-1])])


@broken("shape", "Transforms are padded to a power of two and cut: the circle has the wrong length at other m.")
class PaddedTransform(Tensor):
    def join(self, a, b):
        n = padded(self.m)
        return np.fft.irfft((np.fft.rfft(a, n=n) * np.fft.rfft(b, n=n)).sum(axis=-2), n=n)[..., : self.m]


@broken("shape", "From m = 512 on, only the first 256 numbers are used for vectors of more than 1000 entries.")
class WideUnused(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, 256 if m >= 512 and d > 1000 else m, seed, name)


@broken("protocol", "Gives one number more than m (a norm beside the buckets), and says so in size.")
class OneTooMany(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        made._size = int(m) + 1
        return made

    def of_flat(self, f):
        y = super().of_flat(f)
        return np.concatenate([y, np.zeros_like(y[..., :1])], axis=-1)


@broken("protocol", "size says m, but at odd m there are m - 1 numbers.")
class SizeAtOddWidth(Count):
    def of_flat(self, f):
        return scatter(f, self.h % max(1, self.m // 2 * 2), self.s, max(1, self.m // 2 * 2))


@broken("protocol", "shape says (D,) for a matrix.")
class ShapeFlattened(Count):
    @property
    def shape(self):
        return (prod(self._shape),)


@broken("protocol", "nbytes counts one byte per entry, its tables have sixteen.")
class BytesWrong(Count):
    @property
    def nbytes(self):
        return self.h.size
