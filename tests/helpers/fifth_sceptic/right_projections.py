"""Right though unusual: several buckets for each entry, dense tables, transforms, isometries."""

from fractions import Fraction
from itertools import product
from math import isqrt, prod, sqrt

import numpy as np

from fifth_sceptic.base import Dense, Flat, Rows, buckets, signs
from sdi.sketch.hashing import distinct, normals


class ThreeWithReplacement(Flat):
    """Three buckets for each entry, which may be the same one, each with a sign, over sqrt(3).

    |S e_i|^2 varies by 2 (k - 1) / (k m) = 4 / (3 m), less than the 2 / m that sums of many entries have.
    """

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        h, s = buckets(3 * d, m, seed, name, "h"), signs(3 * d, seed, name, "s")
        return cls(shape, m, h.reshape(3, d), s.reshape(3, d))

    def rows(self, x):
        parts = (Flat(self._shape, self.m, h, s).rows(x) for h, s in zip(self.h, self.s, strict=True))
        return sum(parts) / sqrt(3)


class ThreeStacked(Flat):
    """Three CountSketches into m // 3 buckets each, side by side, over sqrt(3): as good as one into 3 (m // 3)."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 3:
            raise ValueError(f"m must be at least 3, got {m}")
        d, k = prod(shape), m // 3
        h, s = buckets(3 * d, k, seed, name, "h"), signs(3 * d, seed, name, "s")
        return cls(shape, 3 * k, h.reshape(3, d), s.reshape(3, d))

    def rows(self, x):
        parts = [Flat(self._shape, self.m // 3, h, s).rows(x) for h, s in zip(self.h, self.s, strict=True)]
        return np.concatenate(parts, axis=1) / sqrt(3)


class ComplexUnits(Rows):
    """Entries go to m // 2 complex buckets, times 1, i, -1 or -i; real and imaginary parts are the numbers.

    For i != j, E Re(w_i conj w_j)^2 = 1/2, so that the variance is at most 2 / (2 (m // 2)).
    """

    def __init__(self, shape, half, h, turns):
        self._shape, self.half, self.h, self.turns = tuple(shape), half, h, turns

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        d = prod(shape)
        return cls(shape, m // 2, buckets(d, m // 2, seed, name, "h"), buckets(d, 4, seed, name, "turns"))

    @property
    def size(self):
        return 2 * self.half

    def tables(self):
        return {"h": self.h, "turns": self.turns}

    def rows(self, x):
        imaginary = self.turns & 1
        return Flat(self._shape, self.size, self.h + self.half * imaginary, 1 - (self.turns & 2)).rows(x)

    def variance_factor(self):
        return 2 / self.size


class Ternary(Dense):
    """Entries 0 with probability 2/3, else +-sqrt(3) (Achlioptas): kurtosis 3, so the variance is a normal table's."""

    @classmethod
    def table_of(cls, shape, m, seed, name):
        die = buckets(m * prod(shape), 6, seed, name)
        return (np.where(die < 4, 0, 2 * die - 9) * sqrt(3)).reshape(m, -1)

    @classmethod
    def enumerate_all(cls, shape, m):
        n = m * prod(shape)
        for values in product((-1, 0, 1), repeat=n):
            chance = Fraction(1)
            for value in values:
                chance *= Fraction(1, 6) if value else Fraction(2, 3)
            yield chance, cls(shape, np.array(values).reshape(m, -1) * sqrt(3))


class VerySparse(Dense):
    """Entries 0 with probability 7/8, else +-sqrt(8): kurtosis 8, worst for a single entry, 7 / m, and claimed so."""

    @classmethod
    def table_of(cls, shape, m, seed, name):
        die = buckets(m * prod(shape), 16, seed, name)
        return (np.where(die < 2, 2 * die - 1, 0) * sqrt(8)).reshape(m, -1)

    def variance_factor(self):
        return 7 / self.size


class EighthNormals(Dense):
    """Normal numbers rounded to eighths, kept as bytes, over the root of what this adds: 1 + 1 / (12 * 64)."""

    @classmethod
    def table_of(cls, shape, m, seed, name):
        return np.clip(np.rint(8 * normals(m * prod(shape), seed, name)), -127, 127).astype(np.int8).reshape(m, -1)

    def rows(self, x):
        return super().rows(x) / sqrt(64 + 1 / 12)


class RandomSubspace(Dense):
    """The projection on a random subspace of m dimensions, times sqrt(D / m), a rotation where D <= m.

    By symmetry the worst pair is x = y, where |P x|^2 has a beta distribution: 2 (D - m) / (m (D + 2)).
    """

    keeps_small = False

    @classmethod
    def table_of(cls, shape, m, seed, name):
        D = prod(shape)
        k = min(m, D)
        q, r = np.linalg.qr(normals(k * D, seed, name).astype(np.float64).reshape(D, k))
        return (q * np.sign(np.diag(r))).T.copy() * sqrt(D)  # Dense divides by sqrt(k)

    def variance_factor(self):
        D, k = self.count, self.size
        return 2 * (D - k) / (k * (D + 2))


class Mirror(Rows):
    """x - 2 (x.w) w for a random unit vector w: an isometry that gives as many numbers as the parameter has."""

    def __init__(self, shape, w):
        self._shape, self.w = tuple(shape), w

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        w = normals(prod(shape), seed, name, "mirror").astype(np.float64)
        return cls(shape, w / np.linalg.norm(w))

    @property
    def size(self):
        return self.count

    def tables(self):
        return {"w": self.w}

    def rows(self, x):
        return x - 2 * (x @ self.w)[:, None] * self.w

    def variance_factor(self):
        return 0.0


class CosineSample(Rows):
    """Random signs, an orthonormal cosine transform, m of its D numbers without replacement, times sqrt(D / m).

    Squares of the transform's entries are at most 2 / D, so that D E sum z_k^2 w_k^2 is at most 3 * 2.
    """

    def __init__(self, shape, s, at):
        self._shape, self.s, self.at = tuple(shape), s, at

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        return cls(shape, signs(d, seed, name, "s"), distinct(min(m, d), d, seed, name, "at"))

    @property
    def size(self):
        return len(self.at)

    def tables(self):
        return {"s": self.s, "at": self.at}

    def rows(self, x):
        from scipy.fft import dct

        return dct(x * self.s, axis=1, norm="ortho")[:, self.at] * sqrt(self.count / self.size)

    def variance_factor(self):
        D, k = self.count, self.size
        return 6 * (D - k) / (max(D - 1, 1) * k)


class CountBothSides(Rows):
    """A CountSketch of the rows and one of the columns, C1 X C2^T, with the claim of a Kronecker product of these.

    A side that has room for all its entries is kept; the claim is (1 + 2 / k1) (1 + 2 / k2) - 1, without kept sides.
    """

    def __init__(self, shape, k, sides):
        self._shape, self.k, self.sides = tuple(shape), k, sides  # each side (buckets, signs)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d1, d2 = shape[0], prod(shape[1:])
        k2 = min(d2, isqrt(m))
        k1 = min(d1, m // k2)
        sides = [
            (np.arange(d), np.ones(d, dtype=np.int64))
            if k == d
            else (buckets(d, k, seed, name, "h", i), signs(d, seed, name, "s", i))
            for i, (k, d) in enumerate([(k1, d1), (k2, d2)])
        ]
        return cls(shape, (k1, k2), sides)

    @property
    def size(self):
        return self.k[0] * self.k[1]

    def tables(self):
        return {
            f"{what}{i}": table for i, side in enumerate(self.sides) for what, table in zip("hs", side, strict=True)
        }

    def rows(self, x):
        (h1, s1), (h2, s2) = self.sides
        h, s = h1[:, None] * self.k[1] + h2, s1[:, None] * s2
        return Flat(self._shape, self.size, h.ravel(), s.ravel()).rows(x)

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        parts = []
        for x, k, (h, s) in zip((u, v), self.k, self.sides, strict=True):
            one = np.zeros((len(h), k))
            one[np.arange(len(h)), h] = s
            parts.append(x.astype(np.float64) @ one)
        return (parts[0].swapaxes(-1, -2) @ parts[1]).reshape(*u.shape[:-2], self.size)

    def to_torch(self, device, dtype):
        return BothSidesTwin(self, device, dtype)

    def variance_factor(self):
        drawn = [1 + 2 / k if k < len(h) else 1.0 for k, (h, _) in zip(self.k, self.sides, strict=True)]
        return drawn[0] * drawn[1] - 1


class BothSidesTwin:
    def __init__(self, sketch, device, dtype):
        import torch

        self.size, self.ones = sketch.size, []
        for k, (h, s) in zip(sketch.k, sketch.sides, strict=True):
            one = torch.zeros(len(h), k, device=device, dtype=dtype)
            one[torch.arange(len(h)), torch.as_tensor(h)] = torch.as_tensor(s, dtype=dtype)
            self.ones.append(one)

    def apply(self, G):
        left, right = self.ones
        return (left.T @ G.reshape(len(G), len(left), len(right)) @ right).reshape(len(G), self.size)

    def apply_outer(self, u, v):
        return ((u @ self.ones[0]).transpose(1, 2) @ (v @ self.ones[1])).reshape(len(u), self.size)


NAMED = [ThreeWithReplacement, ThreeStacked, ComplexUnits, Ternary, VerySparse, EighthNormals, RandomSubspace, Mirror]
NAMED += [CosineSample, CountBothSides]
SKETCHES = [(cls.__name__, cls, "right") for cls in NAMED]
