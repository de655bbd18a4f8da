"""Two different sketches have one identity, or a sketch says of itself what depends on its draw."""

from math import prod

import numpy as np

from fifth_sceptic.base import Flat, buckets


class TablesWithoutSigns(Flat):
    """tables() has the buckets only, which come from the name alone: seeds have one identity, but other signs."""

    @classmethod
    def h_of(cls, shape, m, seed, name):
        return buckets(prod(shape), m, name, "h")

    def tables(self):
        return {"h": self.h}


class OwnIdentity(Flat):
    """Its own identity is made from shape and m: features of seed 0 and seed 1 are taken for comparable."""

    @property
    def identity(self):
        return f"own-{self._shape}-{self.m}"


class LazyTables(Flat):
    """Draws at the first apply; until then tables() is empty, so that its identity is the same for all seeds."""

    def __init__(self, shape, m, seed, name):
        self._shape, self.m, self.words, self.h = tuple(shape), m, (seed, name), None

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, m, seed, name)

    def tables(self):
        return {} if self.h is None else {"h": self.h, "s": self.s}

    def rows(self, x):
        if self.h is None:
            self.h = self.h_of(self._shape, self.m, *self.words)
            self.s = self.s_of(self._shape, *self.words)
        return super().rows(x)


class ClaimFromDraw(Flat):
    """The claim is made from the buckets drawn: smaller for draws with few collisions, so that it bounds none."""

    def variance_factor(self):
        load = np.bincount(self.h, minlength=self.m)
        return 2 * float((load * (load - 1)).sum()) / max(self.count * (self.count - 1), 1)


SKETCHES = [
    ("TablesWithoutSigns", TablesWithoutSigns, "broken"),
    ("OwnIdentity", OwnIdentity, "broken"),
    ("LazyTables", LazyTables, "broken"),
    ("ClaimFromDraw", ClaimFromDraw, "broken"),
]
