"""Broken: what seeds and names do, and what is kept between draws."""

from __future__ import annotations

import re
from math import prod
from typing import ClassVar
from zlib import crc32

import numpy as np

from new_sceptic.bases import Dense, Entries, buckets, signs


class NoSeed(Entries):
    @classmethod
    def words(cls, seed, name):
        return (name,)


class ThousandSeeds(Entries):
    @classmethod
    def words(cls, seed, name):
        return seed % 1000, name


class FourDigits(Entries):
    """The first four digits of the seed."""

    @classmethod
    def words(cls, seed, name):
        return str(seed)[:4], name


class SingleSeed(Entries):
    """The seed in single precision: 2^24 and 2^24 + 1 are one."""

    @classmethod
    def words(cls, seed, name):
        return float(np.float32(seed)), name


class SeedAtLeastOne(Entries):
    @classmethod
    def words(cls, seed, name):
        return max(seed, 1), name


class PairsOfSeeds(Entries):
    """An odd seed changes all the signs of the even one before it: every product stays."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed // 2, name=name)
        made.s = made.s * (1 - 2 * (seed % 2))
        return made


class RunTogether(Entries):
    """Name and seed as one text: layers.1 with 11 is layers.11 with 1."""

    @classmethod
    def words(cls, seed, name):
        return (f"{name}{seed}",)


class NoNumbers(Entries):
    """Layer numbers are taken out of the name."""

    @classmethod
    def words(cls, seed, name):
        return seed, re.sub(r"\d+", "", name)


class LengthOfName(Entries):
    @classmethod
    def words(cls, seed, name):
        return seed, len(name)


class SumOfLetters(Entries):
    """Letters in any order: layer 12 is layer 21."""

    @classmethod
    def words(cls, seed, name):
        return seed, sum(map(ord, name))


class SixteenLetters(Entries):
    """The first 16 letters of the name."""

    @classmethod
    def words(cls, seed, name):
        return seed, name[:16]


class NoLastNumber(Entries):
    """A number at the end of the name is cut off: weight_ih_l0 and weight_ih_l1 are one."""

    @classmethod
    def words(cls, seed, name):
        return seed, name.rstrip("0123456789")


class RotatedByName(Entries):
    """One table for all names, its buckets rotated: every product stays."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name="")
        made.h = (made.h + crc32(name.encode())) % m
        return made


class SignsOfTheRun(Entries):
    """Buckets have a name, signs only the seed."""

    @classmethod
    def signs(cls, d, *words):
        return signs(d, words[0])


class SeedPlusName(Entries):
    """The length of the name is added to the seed: the next seed gives the tables of a name one letter longer."""

    @classmethod
    def words(cls, seed, name):
        return (seed + len(name),)


class KeptByShape(Entries):
    """Tables are kept and found again by shape and m alone."""

    kept: ClassVar[dict] = {}

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = (tuple(shape), m)
        if key not in cls.kept:
            cls.kept[key] = super().draw(shape, m, seed=seed, name=name)
        return cls.kept[key]


class KeptWithoutM(Entries):
    """Tables are kept and found again by everything but m."""

    kept: ClassVar[dict] = {}

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = (tuple(shape), seed, name)
        if key not in cls.kept:
            cls.kept[key] = super().draw(shape, m, seed=seed, name=name)
        made = cls.kept[key]
        return cls(shape, m, made.h % m, made.s)


class NeverTheSameTwice(Entries):
    """A name that was drawn before gets other tables."""

    drawn: ClassVar[dict] = {}

    @classmethod
    def words(cls, seed, name):
        cls.drawn[seed, name] = cls.drawn.get((seed, name), -1) + 1
        return seed, name, cls.drawn[seed, name]


class NumberedNames(Entries):
    """A name stands for its number among those seen so far."""

    seen: ClassVar[list] = []

    @classmethod
    def words(cls, seed, name):
        if name not in cls.seen:
            cls.seen.append(name)
        return seed, cls.seen.index(name)


class PythonsHash(Entries):
    @classmethod
    def words(cls, seed, name):
        return seed, hash(name)


class NumPysGenerator(Dense):
    """The draw seeds NumPy's own generator, which belongs to the user's program."""

    @classmethod
    def table(cls, m, d, seed, name):
        np.random.seed((crc32(name.encode()) + seed) % 2**32)  # noqa: NPY002
        return np.random.choice([-1.0, 1.0], (m, d)) / m**0.5  # noqa: NPY002


class DrawnWhenUsed(Entries):
    """Signs are drawn at the first use, by a counter of all uses."""

    used: ClassVar[list] = [0]

    @classmethod
    def signs(cls, d, *words):
        return None

    def tables(self):
        return {"h": self.h}

    def apply(self, x):
        if self.s is None:
            self.used[0] += 1
            self.s = signs(prod(self.shape), "used", self.used[0])
        return super().apply(x)


class SameIdentity(Entries):
    """An identity of the kind and m: features of two seeds can be multiplied."""

    identity = "entries"


class SignsNotInTables(Entries):
    def tables(self):
        return {"h": self.h}


class FirstTables(Entries):
    """`tables` gives what the first sketch of the class had."""

    first: ClassVar[dict] = {}

    def tables(self):
        return self.first.setdefault(self.shape, {"h": self.h, "s": self.s})


class SameBucketsForAll(Entries):
    """Buckets have neither seed nor name."""

    @classmethod
    def buckets(cls, d, m, *words):
        return buckets(d, m, "buckets")
