"""Right though unusual: each entry goes to one bucket."""

from fractions import Fraction
from functools import lru_cache
from itertools import product
from math import prod

import numpy as np

from fifth_sceptic.base import Flat, FlatTwin, Rows, buckets, signs
from sdi.sketch import bits

PRIME = (1 << 31) - 1


class SignHighBit(Flat):
    """Bucket and sign come from one word, modulo m and the highest bit: independent to m / 2^63."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        word = bits(prod(shape), seed, name)
        return cls(shape, m, word % np.uint64(m), 1 - 2 * (word >> np.uint64(63)).astype(np.int64))

    def __init__(self, shape, m, h, s):
        super().__init__(shape, m, h.astype(np.int64), s)

    def to_torch(self, device, dtype):
        return FlatTwin(self, device, dtype)


class Masked(Flat):
    """Takes powers of two from 4 on, and refuses other m: bucket and sign are distinct bits of one word."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 4 or m & (m - 1):
            raise ValueError(f"m must be a power of two of at least 4, got {m}")
        word = bits(prod(shape), seed, name)
        h = (word & np.uint64(m - 1)).astype(np.int64)
        return cls(shape, m, h, 1 - 2 * (word >> np.uint64(40) & np.uint64(1)).astype(np.int64))


class Coefficients(Flat):
    """Its tables are six coefficients: buckets by a line, signs by a cubic, modulo 2^31 - 1; 2-wise and 4-wise."""

    def __init__(self, shape, m, a):
        i = np.arange(prod(shape), dtype=np.int64)
        value = np.full(len(i), a[5])
        for c in a[4:1:-1]:
            value = (value * i + c) % PRIME
        super().__init__(shape, m, (a[1] * i + a[0]) % PRIME % m, 1 - 2 * (value & 1))
        self.a = a

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, m, (bits(6, seed, name, "a") % np.uint64(PRIME)).astype(np.int64))

    def tables(self):
        return {"a": self.a}

    def variance_factor(self):
        return 2.001 / self.m


class Balanced(Flat):
    """A random order, dealt to the buckets in turn, so that they are equally full: pairs meet less often than 1 / m.

    Two entries meet with P = q (m (q - 1) + 2 r) / (D (D - 1)) for D = q m + r; the claim is 2 P, 0 where D <= m.
    """

    keeps_small = False

    @classmethod
    def h_of(cls, shape, m, seed, name):
        order = np.argsort(bits(prod(shape), seed, name, "order"), kind="stable")
        h = np.empty(prod(shape), dtype=np.int64)
        h[order] = np.arange(prod(shape)) % m
        return h

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        hs = [h for h in product(range(m), repeat=d) if sorted(h) == sorted(i % m for i in range(d))]
        for h, s in product(hs, product((-1, 1), repeat=d)):
            yield Fraction(1, len(hs) * 2**d), cls(shape, m, np.array(h), np.array(s))

    def variance_factor(self):
        D, (q, r) = self.count, divmod(self.count, self.m)
        return 2 * q * (self.m * (q - 1) + 2 * r) / (D * (D - 1)) if self.m < D else 0.0


class FourBlocks(Flat):
    """Each fourth row has a quarter of the buckets for itself, and the claim says so: 2 / (m // 4)."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 4:
            raise ValueError(f"m must be at least 4, got {m}")
        part = m // 4
        block = np.repeat(np.arange(shape[0]) % 4, prod(shape[1:]))
        h = buckets(prod(shape), part, seed, name, "h") + part * block
        return cls(shape, 4 * part, h, cls.s_of(shape, seed, name))

    def variance_factor(self):
        return 8 / self.size


class PhiloxTables(Flat):
    """Draws with NumPy's Philox, from a key of its own: a digest of seed and name, each with its length."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        import hashlib

        text = f"{len(str(seed))}:{seed}{len(name)}:{name}".encode()
        key = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")
        raw = np.random.Generator(np.random.Philox(key=key))
        h, s = raw.integers(0, m, prod(shape)), raw.integers(0, 2, prod(shape))
        return cls(shape, m, h, 1 - 2 * s)


class CachedDraws(Flat):
    """Draws are cached by all their arguments, so that one object is handed out twice; nothing in it is changed."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return _drawn(tuple(shape), m, seed, name)


@lru_cache(maxsize=8)
def _drawn(shape, m, seed, name):
    return CachedDraws(shape, m, CachedDraws.h_of(shape, m, seed, name), CachedDraws.s_of(shape, seed, name))


class Procedural(Rows):
    """Keeps no tables, but makes them from seed and name each time they are needed."""

    def __init__(self, shape, m, seed, name):
        self._shape, self.size_, self.words = tuple(shape), m, (seed, name)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, m, seed, name)

    @property
    def size(self):
        return self.size_

    def tables(self):
        return {"h": buckets(self.count, self.size_, *self.words, "h"), "s": signs(self.count, *self.words, "s")}

    def rows(self, x):
        t = self.tables()
        return Flat(self._shape, self.size_, t["h"], t["s"]).rows(x)

    def variance_factor(self):
        return 2 / self.size_


class RandomScale(Flat):
    """A CountSketch times a random number c, c^2 = 1/2 or 3/2: norms are kept on average, and E c^4 = 5/4."""

    def __init__(self, shape, m, h, s, c2):
        super().__init__(shape, m, h, s)
        self.c2 = c2

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        c2 = 0.5 + (bits(1, seed, name, "c") % np.uint64(2)).astype(np.float64)
        return cls(shape, m, cls.h_of(shape, m, seed, name), cls.s_of(shape, seed, name), c2)

    def tables(self):
        return {**super().tables(), "c2": self.c2}

    def rows(self, x):
        return super().rows(x) * np.sqrt(self.c2)

    def variance_factor(self):
        return 1.25 * 2 / self.m + 0.25


NAMED = [SignHighBit, Masked, Coefficients, Balanced, FourBlocks, PhiloxTables, CachedDraws, Procedural, RandomScale]
SKETCHES = [(cls.__name__, cls, "right") for cls in NAMED]
