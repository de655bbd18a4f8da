"""Sketches of a sceptic who had not read the checks: faults of tables, identity and lists."""

# ruff: noqa: E501  (as the sceptic wrote them)

from __future__ import annotations

import hashlib
import time
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod, sqrt

import numpy as np
from sceptic_bases import Count, Dense, broken
from sceptic_seeds import Keyed

from sdi.sketch import bits
from sdi.sketch.hashing import distinct, signs_of


@broken("identity", "tables is empty: sketches of different seeds look equal.")
class TablesEmpty(Count):
    def tables(self):
        return {}


@broken(
    "identity",
    "tables leaves out the signs: sketches that differ in them look equal.",
)
class TablesWithoutSigns(Keyed):
    @classmethod
    def draw(cls, shape, m, *, seed, name):  # few distinct bucket tables, so that two draws may share one
        d = prod(shape)
        return cls(shape, m, Count.buckets(d, m, name, int(seed) % 7), Count.signs(d, m, seed, name))

    def tables(self):
        return {"h": self.h}


@broken(
    "identity",
    "tables leaves out the signs, which come from the same seed: part of the randomness is not in the identity.",
    "two seeds still differ in h, so no two sketches that can be drawn look equal; but tables is to hold all randomness",
)
class TablesOnlyBuckets(Count):
    def tables(self):
        return {"h": self.h}


@broken("identity", "tables has only the first eight hashes.")
class TablesCut(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        head = super().draw(shape, m, seed=int(seed) % 16, name=name)  # a "stable head", renewed with 16 seeds only
        made.h[:8], made.s[:8] = head.h[:8], head.s[:8]
        return made

    def tables(self):
        return {"h": self.h[:8], "s": self.s[:8]}


@broken(
    "identity",
    "tables has the first 64 hashes, 'to keep files small': two sketches may differ elsewhere unseen.",
    "distinct (seed, name) still differ in practice, since the first 64 are as random as the rest; "
    "but tables is to hold all of the randomness, and nbytes is too small",
)
class TablesHead(Count):
    def tables(self):
        return {"h": self.h[:64], "s": self.s[:64]}


@broken("identity", "tables has the time of the draw: two equal sketches look different.")
class TablesWithTime(Count):
    def tables(self):
        self.time = getattr(self, "time", time.time_ns())
        return {**super().tables(), "time": np.array([self.time])}


@broken("identity", "identity is made of class, name and m, without the seed: different sketches look equal.")
class IdentityOfName(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        made.name = name
        return made

    @property
    def identity(self):
        return hashlib.sha256(f"{self.kind}|{self.name}|{self.m}".encode()).hexdigest()[:12]


@broken(
    "identity",
    "Fixed hashes are refreshed by signs from the seed, which are not among the tables: unequal sketches look equal.",
)
class HiddenFlips(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = cls(shape, m, Count.buckets(prod(shape), m, "fixed", name), Count.signs(prod(shape), m, "fixed", name))
        made.flip = signs_of(bits(prod(shape), seed, name, "flip")).astype(np.int64)
        return made

    def of_flat(self, f):
        return super().of_flat(f * self.flip.astype(f.dtype))


@broken(
    "identity",
    "It calls itself 'count' and has CountSketch's tables, but numbers its buckets from the end: looks equal to one.",
    "no rule forbids the word; but a CountSketch with these tables has the same identity and gives other numbers",
)
class KindTaken(Count):
    kind = "count"

    def of_flat(self, f):
        return np.flip(super().of_flat(f), axis=-1)


class Listed(Count):
    """With a list of draws, given by `listed(d, m)`: (probability, h, s)."""

    @classmethod
    def enumerate_all(cls, shape, m):
        for p, h, s in cls.listed(prod(shape), int(m)):
            yield p, cls(shape, m, np.array(h), np.array(s))


@broken("listing", "The list has every bucket, but only the sign +.")
class ListsNoSigns(Listed):
    @classmethod
    def listed(cls, d, m):
        for h in product(range(m), repeat=d):
            yield Fraction(1, m**d), h, (1,) * d


@broken("listing", "The listed probabilities sum to 2^d.")
class ListsTooMuch(Listed):
    @classmethod
    def listed(cls, d, m):
        for h, s in product(product(range(m), repeat=d), product((-1, 1), repeat=d)):
            yield Fraction(1, m**d), h, s


@broken(
    "listing",
    "The list fixes the first entry's bucket to 0, 'by symmetry': mean and variance agree, the draws do not.",
    "moments of inner products are the same by symmetry; but it is not 'every draw with its probability'",
)
class ListsBySymmetry(Listed):
    @classmethod
    def listed(cls, d, m):
        for h, s in product(product(range(m), repeat=d - 1), product((-1, 1), repeat=d)):
            yield Fraction(1, m ** (d - 1) * 2**d), (0, *h), s


@broken("listing", "draw uses fair buckets, the list balanced ones (all sets of equal size): another law.")
class ListsBalanced(Listed):
    @classmethod
    def listed(cls, d, m):
        every = [h for h in product(range(m), repeat=d) if max(map(h.count, range(m))) <= -(-d // m)]
        for h, s in product(every, product((-1, 1), repeat=d)):
            yield Fraction(1, len(every) * 2**d), h, s


@broken("listing", "The list is of the right sets of a mask, but draw takes the first of them more often.")
class DrawsUnlisted(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        k = min(int(m), d)
        w = bits(k + 1, seed, name)
        at = distinct(k, d, seed, name) if w[k] % np.uint64(10) else np.arange(k)
        return cls(shape, np.eye(d)[at], sqrt(d / k))

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        k = min(int(m), d)
        for at in combinations(range(d), k):
            yield Fraction(1, comb(d, k)), cls(shape, np.eye(d)[list(at)], sqrt(d / k))

    def variance_factor(self):
        return prod(self.shape) / self.size
