"""Right sketches, of kinds that a check may stumble over."""

from __future__ import annotations

from fractions import Fraction
from hashlib import sha256
from itertools import product
from math import prod, sqrt

import numpy as np
from scipy.special import ndtri

from new_sceptic.bases import DENSE, Dense, Entries, Sides, buckets, pile, signs, uniform
from new_sceptic.claims import Laplace, SquareRootOfM, hadamard
from new_sceptic.outer_and_twins import Twin, twin_of
from sdi.sketch import bits


def normals(count, *words):
    return ndtri(uniform(count, *words) + 2.0**-54)


class Plain(Entries):
    """A CountSketch of all entries."""


class OneWord(Entries):
    """Sign and bucket from one word, from different bits."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        word = bits(prod(shape), seed, name)
        h = ((word >> np.uint64(1)) % np.uint64(m)).astype(np.int64)
        return cls(shape, m, h, 1 - 2 * (word & np.uint64(1)).astype(np.int64))


class EvenlyFilled(Entries):
    """A random order, dealt to the buckets in turn: no two hold more than one entry more or less."""

    @classmethod
    def buckets(cls, d, m, *words):
        return np.argsort(np.argsort(bits(d, *words, "h"), kind="stable")) % m


class Mersenne(Entries):
    """Polynomials modulo 2^61 - 1, of degree 1 and 3."""

    @classmethod
    def poly(cls, d, degree, *words):
        p, value = (1 << 61) - 1, np.zeros(d, dtype=object)
        for c in bits(degree + 1, *words):
            value = (value * np.arange(d).astype(object) + int(c) % p) % p
        return value

    @classmethod
    def buckets(cls, d, m, *words):
        return (cls.poly(d, 1, *words, "h") % m).astype(np.int64)

    @classmethod
    def signs(cls, d, *words):
        return 1 - 2 * (cls.poly(d, 3, *words, "s") % 2).astype(np.int64)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if prod(shape) > 1 << 14:
            raise ValueError(f"at most {1 << 14} entries, got {shape}")
        return super().draw(shape, m, seed=seed, name=name)


class OwnGenerator(Entries):
    """A generator of its own, keyed by a digest of seed and name."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = int.from_bytes(sha256(f"{seed}|{name}".encode()).digest()[:16], "little")
        rng = np.random.Generator(np.random.Philox(key=key))
        d = prod(shape)
        return cls(shape, m, rng.integers(0, m, d), rng.choice([-1, 1], d))


class ByColumnsOfAll(Entries):
    """The entries of a matrix by columns, everywhere."""

    def flat(self, x):
        x = self._check(x)
        return (
            super().flat(x).reshape(*x.shape).swapaxes(-1, -2).reshape(*x.shape[:-2], -1)
            if len(self.shape) == 2
            else super().flat(x)
        )


class SmallIsKept(Entries):
    """At most m entries: each in a bucket of its own, no variance."""

    @classmethod
    def buckets(cls, d, m, *words):
        return np.arange(d) if d <= m else buckets(d, m, *words)

    def variance_factor(self):
        return 0.0 if prod(self.shape) <= self.m else 2 / self.m


class PowerBelow(Entries):
    """m is rounded down to a power of two."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, 1 << (m.bit_length() - 1), seed=seed, name=name)


class Generous(Entries):
    """Claims twice what it needs."""

    def variance_factor(self):
        return 4 / self.m


class FixedBlocks(Entries):
    """Blocks of neighbours, random signs; claims 2, which is what that needs."""

    @classmethod
    def buckets(cls, d, m, *words):
        return np.arange(d) * m // d

    def variance_factor(self):
        return 2.0


class NormalSigns(Entries):
    """Normal numbers in place of signs; claims what that needs."""

    @classmethod
    def signs(cls, d, *words):
        return normals(d, *words, "s")

    def variance_factor(self):
        return 2 + 2 / self.m


class DoubleAlways(Entries):
    """Gives double precision whatever comes in."""

    def apply(self, x):
        return super().apply(np.asarray(x, dtype=np.float64))


class OddStrides(Entries):
    """The answer is a view with strides of its own."""

    def apply(self, x):
        y = super().apply(x)
        wide = np.zeros((*y.shape, 2), dtype=y.dtype)
        wide[..., 0] = y
        return wide[..., 0]


class FourBuckets(Entries):
    """Every entry in one bucket of each quarter."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m % 4:
            raise ValueError(f"m must be a multiple of 4, got {m}")
        d = prod(shape)
        h = np.stack([buckets(d, m // 4, seed, name, k) + k * (m // 4) for k in range(4)])
        return cls(shape, m, h, np.stack([signs(d, seed, name, k) for k in range(4)]))

    def apply(self, x):
        flat = self.flat(x)
        return sum(pile(flat, h, s, self.m) for h, s in zip(self.h, self.s, strict=True)) / 2


class WithTwin(Entries):
    to_torch = twin_of(Twin)


class WithList(Entries):
    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        for h, s in product(product(range(m), repeat=d), product((-1, 1), repeat=d)):
            yield Fraction(1, (2 * m) ** d), cls(shape, m, np.array(h), np.array(s))


class Subtracting(Sides):
    """Buckets of rows minus those of columns."""

    def meet(self, h, g):
        return (h - g) % self.m


class ExclusiveOr(Sides):
    """Buckets by exclusive or, for powers of two; claims what a sum needs, doubled."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m & (m - 1):
            raise ValueError(f"m must be a power of two, got {m}")
        return super().draw(shape, m, seed=seed, name=name)

    def meet(self, h, g):
        return h ^ g

    def variance_factor(self):
        return 2 * super().variance_factor()


class Thirds(Dense):
    """-1, 0, 1 with 1/6, 2/3, 1/6, times the root of three."""

    @classmethod
    def table(cls, m, d, *words):
        u = uniform(m * d, *words).reshape(m, d)
        return ((u > 5 / 6).astype(float) - (u < 1 / 6)) * sqrt(3 / m)


class Uniform(Dense):
    """Uniform numbers."""

    @classmethod
    def table(cls, m, d, *words):
        return (uniform(m * d, *words).reshape(m, d) * 2 - 1) * sqrt(3 / m)


class LaplaceFive(Laplace):
    """The Laplace distribution with the claim it needs: 5 / m."""

    def variance_factor(self):
        return 5 / self.m


class UnitColumns(Dense):
    """Normal numbers, columns of norm 1."""

    @classmethod
    def table(cls, m, d, *words):
        S = normals(m * d, *words).reshape(m, d)
        return S / np.linalg.norm(S, axis=0)


class UnitRows(Dense):
    """Normal numbers, rows of one norm."""

    @classmethod
    def table(cls, m, d, *words):
        S = normals(m * d, *words).reshape(m, d)
        return S / np.linalg.norm(S, axis=1, keepdims=True) * sqrt(d / m)


class OneNorm(Dense):
    """Normal numbers, scaled to one Frobenius norm."""

    @classmethod
    def table(cls, m, d, *words):
        S = normals(m * d, *words).reshape(m, d)
        return S / np.linalg.norm(S) * sqrt(d)


class Sampled(Dense):
    """m entries, drawn with replacement; claims d / m."""

    @classmethod
    def table(cls, m, d, *words):
        if d * d > DENSE:
            raise ValueError(f"at most {int(sqrt(DENSE))} entries, got {d}")
        return np.eye(d)[(bits(m, *words) % np.uint64(d)).astype(np.int64)] * sqrt(d / m)

    def variance_factor(self):
        return prod(self.shape) / self.m


class SignedHadamard(Dense):
    """Random rows, with replacement, of a Hadamard matrix after random signs."""

    @classmethod
    def table(cls, m, d, *words):
        p = 1 << (d - 1).bit_length()
        if p > 1024:
            raise ValueError(f"at most 1024 entries, got {d}")
        return hadamard(p)[(bits(m, *words, "rows") % np.uint64(p)).astype(np.int64), :d] * signs(d, *words) / sqrt(m)


class TwoSidesRight(SquareRootOfM):
    """A projection of the rows times one of the columns, with the scale and the claim that it needs."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d, e = shape if len(shape) == 2 else (shape[0], 1)
        k = max(int(sqrt(m)), 1)
        if k * k * d * e > DENSE:
            raise ValueError(f"shape {shape} is too large")
        A, B = (signs(k * n, seed, name, w).reshape(k, n) for n, w in ((d, "A"), (e, "B")))
        return cls(shape, k * k, np.kron(A, B) / k)


class RandomSubspace(Dense):
    """The projection to a random subspace of m dimensions, or a rotation where there are no more."""

    @classmethod
    def table(cls, m, d, *words):
        if m * d > 1 << 16:
            raise ValueError(f"a table of {m} times {d} numbers is too large")
        k = min(m, d)
        Q, R = np.linalg.qr(normals(d * k, *words).reshape(d, k))
        return (Q * np.sign(np.diag(R))).T * sqrt(d / k)


class Reflected(Dense):
    """A random reflection: keeps every product, gives as many numbers as the parameter has."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        v = normals(d, seed, name)
        made = cls(shape, d, None)
        made.v = v / np.linalg.norm(v)
        return made

    @property
    def size(self):
        return self.m

    def tables(self):
        return {"v": self.v}

    def apply(self, x):
        x = self._check(x)
        flat = x.reshape(*x.shape[: x.ndim - len(self.shape)], prod(self.shape))
        return flat - 2 * (flat @ self.v)[..., None] * self.v

    def variance_factor(self):
        return 0.0


class Shuffled(Reflected):
    """A random order with random signs: keeps every product."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        made = cls(shape, d, None)
        made.order, made.s = np.argsort(bits(d, seed, name, "order"), kind="stable"), signs(d, seed, name)
        return made

    def tables(self):
        return {"order": self.order, "s": self.s}

    def apply(self, x):
        x = self._check(x)
        return (x.reshape(*x.shape[: x.ndim - len(self.shape)], prod(self.shape)) * self.s)[..., self.order]


class NoBase:
    """Everything that the protocol asks for, and no base class."""

    def __init__(self, inner):
        self.inner, self.shape, self.size, self.nbytes = inner, inner.shape, inner.size, inner.nbytes

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(Entries.draw(shape, m, seed=seed, name=name))

    def tables(self):
        return self.inner.tables()

    def apply(self, x):
        return self.inner.apply(x)

    def apply_outer(self, u, v):
        return self.inner.apply_outer(u, v)

    def variance_factor(self):
        return self.inner.variance_factor()
