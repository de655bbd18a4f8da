"""Sketches of a sceptic who had not read the checks: right ones that look odd."""

from __future__ import annotations

import hashlib
from fractions import Fraction
from itertools import product
from math import prod, sqrt

import numpy as np
from sceptic_bases import Count, right, scatter, uniform

from sdi.sketch import bits
from sdi.sketch.hashing import normals, signs_of


@right("A CountSketch of the flattened parameter, fully random; it also lists all its draws.")
class FlatCount(Count):
    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        for h, s in product(product(range(m), repeat=d), product((-1, 1), repeat=d)):
            yield Fraction(1, (2 * m) ** d), cls(shape, m, np.array(h), np.array(s))


@right("Buckets are 2-wise and signs 4-wise independent polynomials modulo 2^61 - 1: all that the bound needs.")
class MersenneCount(Count):
    P = 2**61 - 1

    @classmethod
    def poly(cls, d, degree, *words):
        value = np.zeros(d, dtype=object)
        for c in bits(degree + 1, *words).tolist():
            value = (value * np.arange(d, dtype=object) + c % cls.P) % cls.P
        return value

    @classmethod
    def buckets(cls, d, m, seed, name):
        return (cls.poly(d, 1, seed, name, "h") % int(m)).astype(np.int64)

    @classmethod
    def signs(cls, d, m, seed, name):
        return 1 - 2 * (cls.poly(d, 3, seed, name, "s") % 2).astype(np.int64)


@right("One blake2b digest per entry, half of it for the bucket and half for the sign: independent, pure, slow.")
class BlakeCount(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = hashlib.blake2b(f"{seed}|{name}".encode(), digest_size=32).digest()
        words = [hashlib.blake2b(i.to_bytes(8, "little"), key=key, digest_size=16).digest() for i in range(prod(shape))]
        h = np.array([int.from_bytes(w[:8], "little") % int(m) for w in words])
        return cls(shape, m, h, np.array([1 - 2 * (w[8] >> 7) for w in words]))


@right("NumPy's Philox, keyed by SHA-256 of seed and name, in place of `bits`: just as pure.")
class PhiloxCount(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = hashlib.sha256(f"{seed}|{name}".encode()).digest()[:16]
        rng = np.random.Generator(np.random.Philox(key=np.frombuffer(key, dtype=np.uint64)))
        return cls(shape, m, rng.integers(0, m, prod(shape)), 1 - 2 * rng.integers(0, 2, prod(shape)))


@right("Each bucket gets equally many entries, by a random permutation: entries meet at most as often as 1/m.")
class BalancedCount(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        order = np.argsort(bits(d, seed, name, "order"), kind="stable")
        h = np.empty(d, dtype=np.int64)
        h[order] = np.arange(d) % m
        return h


@right("Buckets are not equally likely, and the claim 2 sum p^2 says so.")
class SkewedBuckets(Count):
    @classmethod
    def weights(cls, m):
        p = 1 + np.arange(m) / m
        return p / p.sum()

    @classmethod
    def buckets(cls, d, m, seed, name):
        edges = np.cumsum(cls.weights(m))
        return np.minimum(np.searchsorted(edges, uniform(d, seed, name, "h")), m - 1)

    def variance_factor(self):
        return 2 * float((self.weights(self.m) ** 2).sum())


@right("Uses only the largest power of two that is at most m, and reports that size and its variance.")
class PowerOfTwoWidth(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, 1 << (int(m).bit_length() - 1), seed=seed, name=name)


@right("Half as many numbers as it may give; the claim is of its own size.")
class HalfWidth(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, max(1, int(m) // 2), seed=seed, name=name)


@right("Two hashes per entry that may meet in one bucket: column norms vary, but average to 1, and 2/m holds.")
class HashesMayMeet(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(2 * d, seed, name, "h") % np.uint64(m)).astype(np.int64).reshape(2, d)

    @classmethod
    def signs(cls, d, m, seed, name):
        return signs_of(bits(2 * d, seed, name, "s")).astype(np.int64).reshape(2, d)

    def of_flat(self, f):
        return sum(scatter(f, h, s, self.m) for h, s in zip(self.h, self.s, strict=True)) / sqrt(2)


@right("Two CountSketches of unequal widths side by side, weighted by width, so that odd m works too.")
class UnequalHalves(HashesMayMeet):
    @classmethod
    def buckets(cls, d, m, seed, name):
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        cut = m // 3 or 1
        w = bits(2 * d, seed, name, "h").reshape(2, d)
        return np.stack([w[0] % np.uint64(cut), w[1] % np.uint64(m - cut) + np.uint64(cut)]).astype(np.int64)

    def of_flat(self, f):
        cut = self.m // 3 or 1
        parts = zip(self.h, self.s, (cut, self.m - cut), strict=True)
        return sum(scatter(f, h, s, self.m) * sqrt(k / self.m) for h, s, k in parts)


@right("One non-zero in each of (up to) four blocks of rows; left-over rows stay unused and uncounted.")
class BlockSparse(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        b, d = min(4, int(m)), prod(shape)
        k = int(m) // b
        h = (bits(b * d, seed, name, "h") % np.uint64(k)).astype(np.int64).reshape(b, d) + k * np.arange(b)[:, None]
        return cls(shape, b * k, h, signs_of(bits(b * d, seed, name, "s")).astype(np.int64).reshape(b, d))

    def of_flat(self, f):
        return sum(scatter(f, h, s, self.m) for h, s in zip(self.h, self.s, strict=True)) / sqrt(len(self.h))


@right("The parameter is cut into two interleaved parts, each with its own CountSketch into half of the numbers.")
class TwoBlocks(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d, b = prod(shape), min(2, int(m))
        k = int(m) // b
        h = (bits(d, seed, name, "h") % np.uint64(k)).astype(np.int64) + k * (np.arange(d) % b)
        made = cls(shape, b * k, h, cls.signs(d, m, seed, name))
        made.k = k
        return made

    def variance_factor(self):
        return 2 / self.k


@right("Neighbouring entries are always summed, with random signs; it claims the 2 that this costs.")
class ContiguousHonest(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        return np.arange(d) * int(m) // d

    def variance_factor(self):
        return 2.0


@right("Normal numbers in place of signs in a CountSketch: unbiased, with a variance of 2, which it claims.")
class NormalSignsHonest(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        return normals(d, seed, name, "s").astype(np.float64)

    def variance_factor(self):
        return 2.0


@right("Signs by simple tabulation are only 3-wise independent; the claim has the 6/m^2 that the fourth costs.")
class TabulationHonest(Count):
    @classmethod
    def signs(cls, d, m, seed, name):
        hi, lo = np.divmod(np.arange(d), 16)
        a = signs_of(bits(int(hi.max()) + 1, seed, name, "hi")).astype(np.int64)
        return a[hi] * signs_of(bits(16, seed, name, "lo")).astype(np.int64)[lo]

    def variance_factor(self):
        return 2 / self.m + 6 / self.m**2


@right("The first half of the numbers are entries kept as they are, the rest is a CountSketch of the other entries.")
class PartlyExact(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d, m = prod(shape), int(m)
        kept = d if d <= m else m // 2
        h, s = np.arange(d), np.ones(d, dtype=np.int64)
        if kept < d:
            h[kept:] = kept + (bits(d - kept, seed, name, "h") % np.uint64(m - kept)).astype(np.int64)
            s[kept:] = signs_of(bits(d - kept, seed, name, "s"))
        made = cls(shape, min(m, d), h, s)
        made.factor = 2 / (m - kept) if kept < d else 0.0
        return made

    def variance_factor(self):
        return self.factor


@right("A fixed cosine transform (an isometry) before the CountSketch changes no inner product.")
class RotatedCount(Count):
    def of_flat(self, f):
        from scipy.fft import dct

        return super().of_flat(dct(f.astype(np.result_type(f, np.float32)), norm="ortho", axis=-1))


@right("Small parameters go through a fixed orthogonal transform, without randomness or error; others are hashed.")
class DctIfSmall(Count):
    keeps_small = False

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        if d > m:
            return super().draw(shape, m, seed=seed, name=name)
        return cls(shape, d, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))

    def of_flat(self, f):
        from scipy.fft import dct

        if len(self.h):
            return super().of_flat(f)
        return dct(f.astype(np.result_type(f, np.float32)), norm="ortho", axis=-1)

    def variance_factor(self):
        return 2 / self.m if len(self.h) else 0.0
