"""Broken: what a sketch says of itself is not so: its identity, tables, size, bytes, shape or claim."""

from math import prod

import numpy as np

from sdi.sketch import bits
from third_sceptic.base import Count, Dense, Table, normal


class TablesInOrderOfASet(Count):
    """tables() is in the order of a set of texts: the identity of one sketch differs between processes, so that stores
    made by two runs with one seed refuse each other."""

    def tables(self):
        return {name: self.t[name] for name in {"h", "s"}}


class IdentityOfShape(Count):
    """identity is made of shape and m: features of two seeds are taken for features of one sketch and compared."""

    @property
    def identity(self):
        return f"{self.shape}-{self.m}"


class TablesWithoutShift(Count):
    """Buckets are shifted by a drawn number that tables() leaves out: different sketches have one identity."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=0, name=name)
        made.shift = int(bits(1, seed, name, "shift")[0] % np.uint64(prod(shape)))
        return made

    def rows(self, x):
        return super().rows(np.roll(x, self.shift, axis=1))


class BytesOfOneTable(Count):
    """nbytes leaves out the signs: a plan of memory is too small by an eighth or more."""

    @property
    def nbytes(self):
        return self.t["h"].nbytes


class ClaimAfterApply(Count):
    """The claim is 2 / m until apply is called, then 1 / m, 'measured': error bars depend on what was run before."""

    used = False

    def rows(self, x):
        self.used = True
        return super().rows(x)

    def variance_factor(self):
        return (1 if self.used else 2) / self.m


class ClaimOfTheArray(Dense):
    """The claim is the drawn matrix's error on one array: a random number, below 2 / m in two of three draws."""

    def variance_factor(self):
        x = normal(prod(self.shape), "probe")[None]
        error = np.square(self.rows(x)).sum(axis=1) / np.square(x).sum(axis=1) - 1
        return float(np.max(error**2))


class OddSizesCrash(Table):
    """Odd m end in an AssertionError instead of the ValueError that means a refusal; a run over many m stops."""

    @classmethod
    def make(cls, shape, m, seed, name):
        assert m % 2 == 0
        return {"table": normal(m * prod(shape), seed, name).reshape(m, -1)} if m * prod(shape) < 1 << 22 else cls.no()

    @staticmethod
    def no():
        raise ValueError("m must be smaller for a dense table")

    def rows(self, x):
        return x @ self.t["table"].T / np.sqrt(self.m)


class TablesThatCanBeWritten(Count):
    """tables() are scaled in place by apply_outer's preparation: after it, apply gives twice the numbers."""

    def apply_outer(self, u, v):
        y = super().apply_outer(u, v)
        if not self.__dict__.get("ready"):
            self.ready, self.t = True, {"h": self.t["h"], "s": 2 * self.t["s"]}
        return y
