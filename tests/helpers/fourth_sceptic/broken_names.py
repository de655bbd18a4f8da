"""Broken: what is made of seed and name."""

from __future__ import annotations

import numpy as np

from fourth_sceptic.base import Count
from sdi.sketch.hashing import bits


class Renamed(Count):
    """Count, with a seed and a name that a subclass changes."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        seed, name = cls.key(seed, name)
        return super().draw(shape, m, seed=seed, name=name)

    @classmethod
    def key(cls, seed, name):
        """What the draw is made from."""
        return seed, name


class SeedAsFloat32(Renamed):
    """The seed goes through single precision: dates such as 20240101 and 20240102 can be one seed."""

    @classmethod
    def key(cls, seed, name):
        return int(np.float32(seed)), name


class NameAnagrams(Renamed):
    """The letters of the name count, not their order: layers.12 and layers.21 have one table."""

    @classmethod
    def key(cls, seed, name):
        return seed, "".join(sorted(name))


class NameCut40(Renamed):
    """Only the first 40 letters of a name count: those of adapters are longer."""

    @classmethod
    def key(cls, seed, name):
        return seed, name[:40]


class NameDotsDropped(Renamed):
    """The dots of a name are left out: net.1.1.weight and net.11.weight have one table."""

    @classmethod
    def key(cls, seed, name):
        return seed, name.replace(".", "")


class NameRotatesBuckets(Count):
    """The seed draws the table and the name only rotates its buckets: the errors of all parameters are the same."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        return (super().buckets(shape, m, seed, "") + int(bits(1, name)[0] % np.uint64(m))) % m

    @classmethod
    def signs(cls, shape, m, seed, name):
        turn = 1 - 2 * int(bits(1, name, "turn")[0] % np.uint64(2))
        return (super().signs(shape, m, seed, "") * turn).astype(np.int8)


class OddSeedsMirror(Count):
    """Seed 2k + 1 is seed 2k with buckets in reverse and signs turned: other tables, the same error."""

    @classmethod
    def buckets(cls, shape, m, seed, name):
        h = super().buckets(shape, m, seed // 2, name)
        return m - 1 - h if seed % 2 else h

    @classmethod
    def signs(cls, shape, m, seed, name):
        s = super().signs(shape, m, seed // 2, name)
        return (-s).astype(np.int8) if seed % 2 else s


class TablesSetOrder(Count):
    """The tables are listed in the order of a set of words: another process has another identity for one sketch."""

    def tables(self):
        every = {"buckets": self.h, "signs": self.s, "first": self.h[:1], "last": self.s[-1:]}
        return {word: every[word] for word in set(every)}

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, m, tables["buckets"], tables["signs"])
