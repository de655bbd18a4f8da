"""Faults that `sdi validate` once accepted: at other widths, sizes, names and magnitudes than those it looked at.

One fault to a class, in its docstring.
"""

from __future__ import annotations

import zlib
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
from broken_applies import Twin
from good_sketch import Good

from sdi.sketch.hashing import bits
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch


class ReadsTheLastLetters(Good):
    """Layers share a sketch where their names differ early."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=name[-13:])


class ReadsTheLastPart(Good):
    """Layers share a sketch: only the last two parts of the name count."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=".".join(name.split(".")[-2:]))


class BiasReusesRows(TensorSketch):
    """A bias has the hash of its weight's rows, so that their errors go together."""

    @classmethod
    def draw(cls, shape, m, *, seed=0, name="", family="table"):
        if len(shape) == 1 and name.endswith(".bias"):
            return CountSketch._of_words(shape[0], m, family, seed, f"{name[:-5]}.weight", "rows")
        return super().draw(shape, m, seed=seed, name=name, family=family)


class BiasReusesTheFirst(Good):
    """A bias has the hash of its weight's first entries."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=name.removesuffix(".bias").removesuffix(".weight"))


class EightBitNames(Good):
    """Names are told apart by eight bits."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=str(zlib.crc32(name.encode()) & 0xFF))


class MaskedBuckets(Good):
    """Buckets are masked with m - 1, which is right for powers of two only."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h") & np.uint64(m - 1)).astype(int)


class BytesForBuckets(Good):
    """Buckets come from one byte each: too few values for more than 256."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h") & np.uint64(255)).astype(int) % m


class FortyBuckets(Good):
    """Buckets are never beyond the fortieth."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, name) % min(m, 40)


class TwiceAtOddWidths(Good):
    """An odd number of buckets comes out twice as large."""

    def apply(self, x):
        return super().apply(x) * (2 if self.m % 2 and self.m > 3 else 1)


class SlightlyBiasedSigns(Good):
    """Signs are + in 505 of 1000 cases: 19% off at 300 x 200 and m = 32."""

    @classmethod
    def signs(cls, d, seed, name):
        return np.where(bits(d, seed, name, "s") % np.uint64(1000) < 505, 1, -1)


class ListsFairSigns(Good):
    """enumerate_all lists fair signs; those that are drawn are + in 53 of 100 cases."""

    @classmethod
    def signs(cls, d, seed, name):
        return np.where(bits(d, seed, name, "s") % np.uint64(100) < 53, 1, -1)

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        for h, s in product(product(range(m), repeat=d), product((-1, 1), repeat=d)):
            yield Fraction(1, (2 * m) ** d), cls(tuple(shape), m, np.array(h), np.array(s))


class FiveOverM(TensorSketch):
    """Claims 5 / m where 6 / m is approached."""

    @classmethod
    def draw(cls, shape, m, *, seed=0, name="", family="table"):
        drawn = super().draw(shape, m, seed=seed, name=name, family=family)
        return drawn if len(shape) == 1 else cls(drawn.rows, drawn.cols)

    def variance_factor(self):
        return 5 / self.m


class NanBelow(Good):
    """Divides by the square of the norm, which vanishes in single precision."""

    def apply(self, x):
        x = np.asarray(x)
        if x.dtype != np.float32 or not x.any():
            return super().apply(x)
        with np.errstate(all="ignore"):
            square = np.square(x).sum(dtype=np.float32)
            return super().apply(x * square / square) if np.isfinite(square) else super().apply(x)


class ClipsSingle(Good):
    """Clips at 65504, in single precision only."""

    def apply(self, x):
        x = np.asarray(x)
        return super().apply(np.clip(x, -65504, 65504) if x.dtype == np.float32 else x)


class LosesFrom2000(Good):
    """Entries beyond the 2000th are lost."""

    def weights(self):
        return np.where(np.arange(len(self.s)) < 2000, super().weights(), 0)


class FlipsFrom1024(Good):
    """The arrays of a batch change their sign from the 1025th on."""

    def apply(self, x):
        y = super().apply(x)
        return np.concatenate([y[:1024], -y[1024:]]) if y.ndim > 1 else y


class OuterOf128Tokens(Good):
    """apply_outer drops tokens beyond the 128th."""

    def apply_outer(self, u, v):
        return super().apply_outer(u[..., :128, :], v[..., :128, :])


class TwinOf16Examples(Good):
    """Its twin gives zeros for a batch of more than 16."""

    def to_torch(self, device, dtype):
        class Few(Twin):
            def apply(self, G):
                return super().apply(G) * (len(G) <= 16)

        return Few(self, device, dtype)


class OnesForNoTokens(Good):
    """apply_outer of no tokens is one, not zero."""

    def apply_outer(self, u, v):
        y = super().apply_outer(u, v)
        return y if u.shape[-2] else np.ones_like(y)


class MovesTheLastBit(Good):
    """apply_outer rounds its arguments to single precision, in place."""

    def apply_outer(self, u, v):
        y = super().apply_outer(u, v)
        if isinstance(u, np.ndarray) and u.flags.writeable:
            u[...] = u.astype(np.float32)
        return y


class SwallowsNan(Good):
    """What is no number counts as zero."""

    def apply(self, x):
        x = np.asarray(x)
        return super().apply(np.nan_to_num(x, posinf=0, neginf=0) if x.dtype.kind == "f" else x)
