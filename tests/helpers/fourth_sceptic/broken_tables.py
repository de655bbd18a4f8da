"""Broken: torch twins, tables and what is made of them, listings."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import perm, prod

import numpy as np
import torch

from fourth_sceptic.base import Count, Dense
from fourth_sceptic.broken_draws import RollingBuckets
from sdi.sketch.hashing import sign_bits


class Twin:
    """A right twin of Count."""

    def __init__(self, sketch, device, dtype):
        self.m = sketch.m
        self.h = torch.as_tensor(np.array(sketch.h), device=device)
        self.s = torch.as_tensor(np.array(sketch.s), device=device, dtype=dtype)

    def flat(self, G):
        return G.reshape(len(G), len(self.h))

    def apply(self, G):
        flat = self.flat(G)
        return flat.new_zeros(len(G), self.m).index_add_(1, self.h, flat * self.s.to(flat.dtype))

    def apply_outer(self, u, v):
        return self.apply((u.transpose(-1, -2) @ v).reshape(len(u), len(self.h)))


class SingleTwin(Twin):
    """A twin that works in single precision."""

    def apply(self, G):
        return super().apply(G.float()).to(G.dtype)


class ViewTwin(Twin):
    """A twin that cannot take a tensor that is not contiguous."""

    def flat(self, G):
        return G.view(len(G), len(self.h))


class TwinSingle(Count):
    """The twin works in single precision, also where double precision is asked for."""

    def to_torch(self, device, dtype):
        return SingleTwin(self, device, dtype)


class TwinViewCrash(Count):
    """The twin takes a view of its argument: a transposed tensor is an error."""

    def to_torch(self, device, dtype):
        return ViewTwin(self, device, dtype)


class TwinCachedByShape(Count):
    """Twins are kept by shape, m, device and dtype: a second parameter of one shape gets the first one's."""

    twins: dict = {}  # noqa: RUF012

    def to_torch(self, device, dtype):
        key = self.shape, self.m, str(device), dtype
        if key not in self.twins:
            self.twins[key] = Twin(self, device, dtype)
        return self.twins[key]


class TablesUint8(Count):
    """tables() gives the buckets as bytes: above m = 256 it is the table of another sketch."""

    def tables(self):
        return {"h": self.h.astype(np.uint8), "s": self.s}


class OfTablesForgetsScale(Dense):
    """of_tables builds a sketch without its scale: what was stored comes back sqrt(m) times too large."""

    scale = 1.0

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        one = super().draw(shape, m, seed=seed, name=name)
        one.scale = m**-0.5
        return one

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        return sign_bits(count, seed, name, "s")


class NbytesCountsEntries(Count):
    """nbytes is the number of entries of the tables, not of bytes."""

    @property
    def nbytes(self):
        return self.h.size + self.s.size


class KindOfAnother(Count):
    """Buckets are numbered from the end, but kind and tables are those of the shipped CountSketch: one identity."""

    kind = "count"

    def sums(self, rows):
        return super().sums(rows)[:, ::-1]


class ListingWithoutCollisions(Count):
    """enumerate_all lists only tables without collisions where D <= m; draw does not avoid them."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        tables = list(permutations(range(m), d) if d <= m else product(range(m), repeat=d))
        one = Fraction(1, (perm(m, d) if d <= m else m**d) * 2**d)
        for h, s in product(tables, product((-1, 1), repeat=d)):
            yield one, cls(shape, m, np.array(h), np.array(s))


class ListingIdealised(RollingBuckets):
    """enumerate_all lists independent buckets; draw takes them round from a random start."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        one = Fraction(1, (2 * m) ** d)
        for h, s in product(product(range(m), repeat=d), product((-1, 1), repeat=d)):
            yield one, cls(shape, m, np.array(h), np.array(s))
