"""What can go wrong with what a sketch says of itself: one fault to a class, in its docstring."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
from broken_draws import HidesSharedDigits, NoSigns
from good_sketch import Good


class HalfTheBound(Good):
    """A claimed bound of half the truth."""

    def variance_factor(self):
        return 1 / self.m


class ClaimsNothing(Good):
    """Has no bound to offer."""

    def variance_factor(self):
        return float("inf")


class ClaimsNoVariance(Good):
    """Random, and claims not to be."""

    def variance_factor(self):
        return 0.0


class HidesItsSigns(Good):
    """The signs are not among the tables."""

    def tables(self):
        return {"h": self.h[:1] * 0}


class HidesItsBuckets(Good):
    """The buckets are not among the tables; the signs are, so that no two sketches of a common size look alike."""

    def tables(self):
        return {"s": self.s}


class NamesAsTables(Good):
    """A table of words."""

    def tables(self):
        return {**super().tables(), "word": np.array(["a"])}


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


class ClaimsALot(Good):
    """Nothing is wrong with it, and its claim is so large that nobody could tell."""

    def variance_factor(self):
        return 1e9


class ThreefoldBehindAClaim(ClaimsALot):
    """Three times too large, which the claim would allow for a while."""

    def apply(self, x):
        return 3 * super().apply(x)


class UnsignedBehindAClaim(NoSigns):
    """Buckets without signs, and a claim that makes room for the bias."""

    def variance_factor(self):
        return 1e6


class SharingBehindAClaim(HidesSharedDigits):
    """Layers share one sketch, and a claim that makes room for the correlation."""

    def variance_factor(self):
        return 1e6
