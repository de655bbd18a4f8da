"""Sketches of a sceptic who had not read the checks: faults of seeds, names and purity."""

# ruff: noqa: NPY002, RUF012  (as the sceptic wrote them)

from __future__ import annotations

import zlib
from math import prod

import numpy as np
from sceptic_bases import Count, broken

from sdi.sketch import bits
from sdi.sketch.hashing import signs_of


class Keyed(Count):
    """A CountSketch whose key is made by `key(seed, name)`."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        word = cls.key(seed, name)
        return cls(shape, m, Count.buckets(prod(shape), m, word, "h"), Count.signs(prod(shape), m, word, "s"))


@broken("seed", "The seed is not used.")
class SeedIgnored(Keyed):
    @staticmethod
    def key(seed, name):
        return name


@broken("seed", "Only the low eight bits of the seed are used: seeds 0 and 256 give one sketch.")
class SeedOfAByte(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{int(seed) & 255}|{name}"


@broken("seed", "Seeds 2k and 2k + 1 give one sketch.")
class SeedHalved(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{int(seed) // 2}|{name}"


@broken("seed", "The seed goes through float32: beyond 2^24 neighbouring seeds give one sketch.")
class SeedAsFloat(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{float(np.float32(seed))}|{name}"


@broken("seed", "abs(seed): seeds -3 and 3 give one sketch.")
class SeedWithoutSign(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{abs(int(seed))}|{name}"


@broken("seed", "Seed and name are reduced to 16 bits: among some hundred draws, two are the same.")
class SixteenBitKey(Keyed):
    @staticmethod
    def key(seed, name):
        return int(bits(1, seed, name)[0]) & 0xFFFF


@broken(
    "seed", "The seed is added to a sum of the name's characters: seed 1 of 'a' is seed 0 of 'b', anagrams are one."
)
class SeedPlusLetters(Keyed):
    @staticmethod
    def key(seed, name):
        return int(seed) + sum(map(ord, name))


@broken(
    "seed", "One long stream per name is read from position `seed` on: the sketches of seeds k and k + 1 are shifts."
)
class SeedIsOffset(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d, start = prod(shape), int(seed) % 10**4
        h = (bits(d + start, name, "h")[start:] % np.uint64(m)).astype(np.int64)
        return cls(shape, m, h, signs_of(bits(d + start, name, "s")[start:]).astype(np.int64))


@broken("seed", "Buckets come from the seed, signs from the name alone: at all seeds one set of signs, a bias of 1/m.")
class SignsWithoutSeed(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return super().signs(d, m, 0, name)


@broken("name", "The name is not used: all parameters of one shape share a sketch, and errors add up.")
class NameIgnored(Keyed):
    @staticmethod
    def key(seed, name):
        return seed


@broken("name", "Only the part after the last dot counts: layers.0.weight and layers.1.weight share a sketch.")
class NameLastPart(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{seed}|{name.rsplit('.', 1)[-1]}"


@broken("name", "The part after the last dot is left out: a layer's weight and bias share their hashes.")
class NameWithoutLastPart(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{seed}|{name.rpartition('.')[0] or name}"


@broken("name", "Digits are left out of the name: block.1.weight and block.2.weight share a sketch.")
class NameWithoutDigits(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{seed}|{''.join(c for c in name if not c.isdigit())}"


@broken("name", "Only the first eight characters of the name count.")
class NameCutAtEight(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{seed}|{name[:8]}"


@broken("name", "Of the name, only its length counts.")
class NameLength(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{seed}|{len(name)}"


@broken("name", "The name is made lower case: W and w share a sketch.")
class NameLowerCase(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{seed}|{name.lower()}"


@broken(
    "name",
    "Names fall into 256 classes by a checksum: among twenty parameters, two share a sketch in one of two models.",
)
class NameChecksumOfAByte(Keyed):
    @staticmethod
    def key(seed, name):
        return f"{seed}|{zlib.crc32(name.encode()) & 255}"


@broken("name", "Signs do not depend on the name: the errors of two parameters go together (correlation 1/m).")
class SignsWithoutName(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return super().signs(d, m, seed, "")


@broken(
    "name", "Buckets do not depend on the name: two parameters share a table, so their sketches are not independent."
)
class BucketsWithoutName(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, "")


@broken("pure", "hash() of a string has a salt of its own in every process: another process draws another sketch.")
class PythonHash(Keyed):
    @staticmethod
    def key(seed, name):
        return hash((seed, name))


@broken("pure", "The draw uses NumPy's global generator: no two draws are alike.")
class GlobalGenerator(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return np.random.randint(0, m, d)


@broken("pure", "One generator per class and seed, made once: what a draw gives depends on the draws before it.")
class SharedGenerator(Count):
    made: dict = {}

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        rng = cls.made.setdefault(seed, np.random.default_rng(abs(int(seed))))
        return cls(shape, m, rng.integers(0, m, prod(shape)), 1 - 2 * rng.integers(0, 2, prod(shape)))


@broken("pure", "Tables are cached by shape, m and seed: a parameter gets those of the first name that came by.")
class CachedWithoutName(Count):
    made: dict = {}

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = (tuple(shape), int(m), int(seed))
        if key not in cls.made:
            cls.made[key] = super().draw(shape, m, seed=seed, name=name)
        return cls.made[key]


@broken("pure", "Tables are cached by shape, m and name: the second seed gets the sketch of the first.")
class CachedWithoutSeed(Count):
    made: dict = {}

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = (tuple(shape), int(m), name)
        if key not in cls.made:
            cls.made[key] = super().draw(shape, m, seed=seed, name=name)
        return cls.made[key]


@broken("pure", "A name's hashes are cached without m: after a draw at a larger m, a smaller one gets them modulo m.")
class CachedWithoutWidth(Count):
    made: dict = {}

    @classmethod
    def buckets(cls, d, m, seed, name):
        if (d, seed, name) not in cls.made:
            cls.made[d, seed, name] = super().buckets(d, m, seed, name)
        return cls.made[d, seed, name] % m
