"""A sketch as a newcomer would write it, and what can go wrong with it: one fault to a class, in its docstring.

`FAULTS` says for each the properties that must fail; all others must hold, or rest on one that fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sdi import LinearSketch
from sdi.hashing import bits


@dataclass(frozen=True, eq=False)
class Good(LinearSketch):
    """A CountSketch of the flattened parameter."""

    of: tuple[int, ...]
    m: int
    h: np.ndarray
    s: np.ndarray

    @classmethod
    def draw(cls, shape: Any, m: int, *, seed: int, name: str) -> Good:
        d = prod(shape)
        return cls(tuple(shape), m, cls.buckets(d, m, seed, name), cls.signs(d, seed, name))

    @classmethod
    def buckets(cls, d: int, m: int, seed: int, name: str) -> np.ndarray:
        return (bits(d, seed, name, "h") % np.uint64(m)).astype(int)

    @classmethod
    def signs(cls, d: int, seed: int, name: str) -> np.ndarray:
        return 1 - 2 * (bits(d, seed, name, "s") % np.uint64(2)).astype(int)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of

    @property
    def size(self) -> int:
        return self.m

    def tables(self) -> dict[str, np.ndarray]:
        return {"h": self.h, "s": self.s}

    def matrix(self) -> np.ndarray:
        return self.s[:, None] * np.equal.outer(self.h, np.arange(self.m))

    def apply(self, x: np.ndarray) -> np.ndarray:
        x = self._check(x)
        return x.reshape(*x.shape[: x.ndim - len(self.of)], prod(self.of)) @ self.matrix().astype(x.dtype)

    def variance_factor(self) -> float:
        return 2 / self.m


class BiasedSigns(Good):
    """A sign hash that is +1 three times out of four."""

    @classmethod
    def signs(cls, d, seed, name):
        return np.where(bits(d, seed, name, "s") % np.uint64(4) == 0, -1, 1)

    def variance_factor(self):
        return 16 / self.m  # allows for it: the bias is the only fault


class NoSigns(Good):
    """Buckets without signs."""

    @classmethod
    def signs(cls, d, seed, name):
        return np.ones(d, dtype=int)


class SharedBuckets(Good):
    """All tensors' buckets collide alike: the bucket hash does not know the parameter's name."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, "")


class HiddenSharing(Good):
    """Two parameters' sketches are one, up to a rotation of the buckets that makes their tables differ."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return (super().buckets(d, m, seed, "") + int(bits(1, seed, name)[0] % np.uint64(m))) % m

    @classmethod
    def signs(cls, d, seed, name):
        return super().signs(d, seed, "") * (1 - 2 * int(bits(1, seed, name, "s")[0] % np.uint64(2)))


class ScaleByShape(Good):
    """A factor that is right for eight rows only."""

    def apply(self, x):
        return super().apply(x) * np.sqrt(self.of[0] / 8)


class DrawsAgain(Good):
    """The hash is drawn again on each call."""

    def matrix(self):
        signs = np.random.default_rng().choice([-1, 1], size=self.s.size)
        return signs[:, None] * super().matrix()


class RemembersDraws(Good):
    """One generator for all draws."""

    generator = np.random.default_rng(0)

    @classmethod
    def signs(cls, d, seed, name):
        return cls.generator.choice([-1, 1], size=d)


class SaltedHash(Good):
    """Python's hash of a string, which is another one in every process."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, str(hash(name)))


class NumbersTheNames(Good):
    """Parameters are told apart by the order in which they were first seen."""

    known: list[str] = []  # noqa: RUF012

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if name not in cls.known:
            cls.known.append(name)
        return super().draw(shape, m, seed=seed, name=str(cls.known.index(name)))


class HalfTheBound(Good):
    """A claimed bound of half the truth."""

    def variance_factor(self):
        return 1 / self.m


class Rounds(Good):
    """Rounds to a hundredth."""

    def apply(self, x):
        return np.round(super().apply(x), 2)


class Centres(Good):
    """Subtracts the mean of the batch."""

    def apply(self, x):
        y = super().apply(x)
        return y - y.mean(axis=tuple(range(y.ndim - 1)), keepdims=True) if y.ndim > 1 and len(y) else y


class ReadsTheBuffer(Good):
    """Wrong for arrays that are not contiguous."""

    def apply(self, x):
        return super().apply(np.ravel(x, order="K").reshape(np.shape(x)))


class WritesToItsArgument(Good):
    """Works in place."""

    def apply(self, x):
        x = np.asarray(x)
        y = super().apply(x)
        if x.flags.writeable:
            x *= 0
        return y


class IgnoresSeed(Good):
    """Every seed gives the same sketch."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=0, name=name)


class SevenSeeds(Good):
    """Only seven different sketches."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed % 7, name=name)


class HidesItsSigns(Good):
    """The signs are not among the tables."""

    def tables(self):
        return {"h": self.h[:1] * 0}


class HalfPrecision(Good):
    """float32 goes through float16."""

    def apply(self, x):
        x = np.asarray(x)
        return super().apply(x.astype(np.float16).astype(np.float32) if x.dtype == np.float32 else x)


class MeansOverTokens(Good):
    """apply_outer averages over tokens where it should add."""

    def apply_outer(self, u, v):
        return super().apply_outer(u, v) / u.shape[-2]


class OuterOfAnotherShape(Good):
    """apply_outer forgets to add over tokens."""

    def apply_outer(self, u, v):
        return self.apply(np.einsum("...ti,...tj->...tij", u, v))


class WrongDense(Good):
    """dense() forgets the signs."""

    def dense(self):
        return np.abs(super().dense())


class TwinWithoutSigns(Good):
    """Its twin on a device forgets the signs."""

    def to_torch(self, device, dtype):
        twin = Twin(self, device, dtype)
        twin.matrix = twin.matrix.abs()
        return twin


class WrongSize(Good):
    """Gives one number more than it says."""

    @property
    def size(self):
        return self.m - 1


class WrongBytes(Good):
    """Says that it needs nothing."""

    nbytes = 0


class TooLarge(Good):
    """Gives more numbers than it was asked for."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m + 1, seed=seed, name=name)


class ClaimsNothing(Good):
    """Has no bound to offer."""

    def variance_factor(self):
        return float("inf")


class ClaimsNoVariance(Good):
    """Random, and claims not to be."""

    def variance_factor(self):
        return 0.0


class NamesAsTables(Good):
    """A table of words."""

    def tables(self):
        return {**super().tables(), "word": np.array(["a"])}


class Bare:
    """Lacks most of the protocol."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls()


class RaisesOnVectors(Good):
    """Does not know vectors."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        rows, cols = shape
        return super().draw((rows, cols), m, seed=seed, name=name)


class ListsTooFew(Good):
    """enumerate_all leaves out half of the draws."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        every = list(product(product(range(m), repeat=d), product((-1, 1), repeat=d)))
        for h, s in every[: len(every) // 2]:
            yield Fraction(1, len(every)), cls(tuple(shape), m, np.array(h), np.array(s))


class ListsOthers(Good):
    """enumerate_all lists an unbiased family, and draw draws another one."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        for s in product((-1, 1), repeat=d):
            yield Fraction(1, 2**d), cls(tuple(shape), m, np.zeros(d, dtype=int), np.array(s))


class BiasedList(Good):
    """Only the first two signs are independent: too rare a fault for a few draws, plain over all of them."""

    @classmethod
    def signs(cls, d, seed, name):
        s = super().signs(d, seed, name)
        if d > 2:
            s[2] = s[0]
        return s

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        every = [s for s in product((-1, 1), repeat=d) if d < 3 or s[2] == s[0]]
        for h, s in product(product(range(m), repeat=d), every):
            yield Fraction(1, m**d * len(every)), cls(tuple(shape), m, np.array(h), np.array(s))


class HidesItsBuckets(Good):
    """The buckets are not among the tables; the signs are, so that no two sketches of a common size look alike."""

    def tables(self):
        return {"s": self.s}


class IgnoresDigits(Good):
    """Layers that differ in their number only share one sketch."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name="".join(c for c in name if not c.isdigit()))


class ReadsSixLetters(Good):
    """Names that begin alike share one sketch."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=name[:6])


class HidesSharedDigits(Good):
    """Layers share one sketch, up to a rotation of the buckets that makes their tables differ."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        without = "".join(c for c in name if not c.isdigit())
        return (super().buckets(d, m, seed, without) + int(bits(1, seed, name)[0] % np.uint64(m))) % m

    @classmethod
    def signs(cls, d, seed, name):
        without = "".join(c for c in name if not c.isdigit())
        return super().signs(d, seed, without) * (1 - 2 * int(bits(1, seed, name, "s")[0] % np.uint64(2)))


class OneSeedForBiases(Good):
    """A bias has the same sketch for every seed."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=0 if name.endswith("bias") else seed, name=name)


class LosesTheOddColumn(Good):
    """Works in pairs of columns, and drops the last one if their number is odd."""

    def apply(self, x):
        x = np.array(x)
        if len(self.of) > 1 and self.of[1] % 2 and self.of[1] > 3:
            x[..., -1] = 0
        return super().apply(x)


class RepeatsAfter64(Good):
    """The hash has a period of 64 entries: one entry and the next but 63 always fall together."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, name)[np.arange(d) % 64]

    @classmethod
    def signs(cls, d, seed, name):
        return super().signs(d, seed, name)[np.arange(d) % 64]


class TwiceAbove1000(Good):
    """Large parameters come out twice as large."""

    def apply(self, x):
        return super().apply(x) * (2 if prod(self.of) > 1000 else 1)


class TwiceAbove64(Good):
    """A sketch of more than 64 numbers comes out twice as large."""

    def apply(self, x):
        return super().apply(x) * (2 if self.m > 64 else 1)


class FlushesSmallNumbers(Good):
    """What is below 1e-8 counts as zero."""

    def apply(self, x):
        x = np.asarray(x)
        return super().apply(np.where(np.abs(x) < 1e-8, 0 * x, x))


class Clips(Good):
    """No number is larger than ten million."""

    def apply(self, x):
        return super().apply(np.clip(x, -1e7, 1e7).astype(np.asarray(x).dtype))


class Twin:
    """A twin on a device, and what may go wrong with it."""

    def __init__(self, sketch, device, dtype):
        import torch

        self.matrix = torch.from_numpy(sketch.matrix()).to(device, dtype)

    def apply(self, G):
        return G.flatten(1) @ self.matrix

    def apply_outer(self, u, v):
        return self.apply(u.transpose(1, 2) @ v)


class TwinOf64Tokens(Good):
    """Its twin drops tokens beyond the 64th."""

    def to_torch(self, device, dtype):
        class Short(Twin):
            def apply_outer(self, u, v):
                return super().apply_outer(u[:, :64], v[:, :64])

        return Short(self, device, dtype)


class TwinOfEightExamples(Good):
    """Its twin drops examples beyond the eighth."""

    def to_torch(self, device, dtype):
        class Few(Twin):
            def apply(self, G):
                y = super().apply(G)
                y[8:] = 0
                return y

        return Few(self, device, dtype)


FAULTS: dict[type, set[str]] = {
    BiasedSigns: {"unbiased"},
    NoSigns: {"unbiased"},
    SharedBuckets: {"names"},
    HiddenSharing: {"names"},
    ScaleByShape: {"scale"},
    DrawsAgain: {"repeatable"},
    RemembersDraws: {"repeatable"},
    HalfTheBound: {"variance"},
    Rounds: {"linear"},
    Centres: {"linear"},
    ReadsTheBuffer: {"layout"},
    WritesToItsArgument: {"layout"},
    IgnoresSeed: {"seeded"},
    SevenSeeds: {"seeded"},
    HidesItsSigns: {"seeded"},
    HalfPrecision: {"dtypes"},
    MeansOverTokens: {"factored"},
    OuterOfAnotherShape: {"factored"},
    WrongDense: {"factored"},
    HidesItsBuckets: {"seeded"},
    IgnoresDigits: {"names"},
    ReadsSixLetters: {"names"},
    HidesSharedDigits: {"names"},
    OneSeedForBiases: {"seeded"},
    LosesTheOddColumn: {"scale"},
    RepeatsAfter64: {"scale"},
    TwiceAbove1000: {"scale"},
    TwiceAbove64: {"scale"},
    FlushesSmallNumbers: {"linear"},
    Clips: {"linear"},
    TwinWithoutSigns: {"conserving", "backends"},
    TwinOf64Tokens: {"conserving", "backends"},
    TwinOfEightExamples: {"conserving", "backends"},
    WrongSize: {"protocol"},
    WrongBytes: {"protocol"},
    TooLarge: {"protocol"},
    ClaimsNothing: {"protocol"},
    ClaimsNoVariance: {"protocol"},
    NamesAsTables: {"protocol"},
    Bare: {"protocol"},
    RaisesOnVectors: {"protocol"},
    ListsTooFew: {"listing"},
    ListsOthers: {"listing"},
    BiasedList: {"unbiased"},
}
ACROSS_PROCESSES: dict[type, str] = {SaltedHash: "repeatable", NumbersTheNames: "order"}
