"""Sketches of a sceptic who had not read the checks: right ones that look odd, second part."""

from __future__ import annotations

from math import isqrt, prod, sqrt

import numpy as np
from sceptic_bases import (
    Count,
    Dense,
    Tensor,
    WithTwin,
    flat_of,
    floats,
    hadamard_rows,
    padded,
    right,
    scatter,
    uniform,
)

from sdi.sketch import bits
from sdi.sketch.hashing import normals, signs_of
from sdi.sketch.protocol import matrix_shape


@right("Not a LinearSketch: the protocol written out by hand, with an apply_outer that gathers entries.")
class DuckTyped:
    def __init__(self, shape, m, h, s):
        self.shape, self.size, self.h, self.s = tuple(shape), int(m), h, s

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        return cls(shape, m, Count.buckets(d, m, seed, name), Count.signs(d, m, seed, name))

    @property
    def nbytes(self):
        return self.h.nbytes + self.s.nbytes

    def tables(self):
        return {"h": self.h, "s": self.s}

    def apply(self, x):
        return scatter(flat_of(floats(np.asarray(x)), self.shape), self.h, self.s, self.size)

    def apply_outer(self, u, v):
        u, v = floats(np.asarray(u)), floats(np.asarray(v))
        return self.apply(np.einsum("...ti,...tj->...ij", u, v).reshape(*u.shape[:-2], *self.shape))

    def variance_factor(self):
        return 2 / self.size


@right("Its own twin on the device, with a row path for embeddings, does the same as apply.")
class CountWithTwin(WithTwin):
    pass


@right("Independent normal entries by Box and Muller's method.")
class BoxMuller(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        n = m * prod(shape)
        g = np.sqrt(-2 * np.log(uniform(n, seed, name, "r"))) * np.cos(2 * np.pi * uniform(n, seed, name, "a"))
        return g.reshape(m, -1)


@right("Signs over sqrt(m), with a claim twice as large as needed: honest, loose.")
class LooseSigns(Dense):
    def variance_factor(self):
        return 4 / self.size


@right("Achlioptas' entries 0 and +-sqrt(3) have a normal number's fourth moment, so 2/m is exact.")
class Achlioptas(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        w = (bits(m * prod(shape), seed, name) % np.uint64(6)).astype(np.int64)
        return (np.where(w == 0, 1.0, 0.0) - np.where(w == 1, 1.0, 0.0)).reshape(m, -1) * sqrt(3)


@right("Entries are non-zero with probability 1/8 and large then; it claims the (8 - 1)/m that their tails cost.")
class VerySparseHonest(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        w = (bits(m * prod(shape), seed, name) % np.uint64(16)).astype(np.int64)
        return (np.where(w == 0, 1.0, 0.0) - np.where(w == 1, 1.0, 0.0)).reshape(m, -1) * sqrt(8)

    def variance_factor(self):
        return 7 / self.size


@right("Uniform entries on [-sqrt(3), sqrt(3)]: lighter tails than normal ones, so 2/m holds.")
class UniformEntries(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        return (2 * uniform(m * prod(shape), seed, name) - 1).reshape(m, -1) * sqrt(3)


@right("Columns are independent uniform points of the sphere: norms of single entries are kept exactly.")
class SphereColumns(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        g = normals(m * prod(shape), seed, name).astype(np.float64).reshape(m, -1)
        return g / np.linalg.norm(g, axis=0)

    @classmethod
    def scaling(cls, shape, m):
        return 1.0


@right("Rows are independent uniform points of a sphere of radius sqrt(D): isotropic, so unbiased.")
class SphereRows(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        g = normals(m * prod(shape), seed, name).astype(np.float64).reshape(m, -1)
        return g * (sqrt(prod(shape)) / np.linalg.norm(g, axis=1, keepdims=True))


@right("The projection onto a uniformly random subspace, rescaled: at most 2/m, and exact where D <= m.")
class RandomRotation(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        k = min(int(m), d)
        q, _ = np.linalg.qr(normals(d * k, seed, name).astype(np.float64).reshape(d, k))
        return cls(shape, np.ascontiguousarray(q.T), sqrt(d / k))


@right("Rows of a cosine transform behind random signs, chosen with replacement; the claim is loose, 4.5/m.")
class SubsampledCosine(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        d = prod(shape)
        k = (bits(m, seed, name, "k") % np.uint64(d)).astype(np.int64)
        c = np.cos(np.pi * (2 * np.arange(d) + 1) * k[:, None] / (2 * d)) * np.where(k == 0, 1.0, sqrt(2))[:, None]
        return c * signs_of(bits(d, seed, name, "s"))

    def variance_factor(self):
        return 4.5 / self.size


@right("A randomised Hadamard transform whose rows are chosen with replacement: 2/m.")
class HadamardReplaced(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        d = prod(shape)
        rows = (bits(m, seed, name, "rows") % np.uint64(padded(d))).astype(np.int64)
        return hadamard_rows(rows, d) * signs_of(bits(d, seed, name, "s"))


@right("A Toeplitz matrix of signs behind random signs: rows share their randomness, yet the variance is 2/m.")
class ToeplitzSigns(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        d = prod(shape)
        c = signs_of(bits(d + m - 1, seed, name, "c")).astype(np.float64)
        return c[np.arange(d)[None] - np.arange(m)[:, None] + m - 1] * signs_of(bits(d, seed, name, "s"))


@right("Random fourth roots of unity; real and imaginary parts are two numbers each.")
class RandomPhases(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 2:
            raise ValueError(f"m must be at least 2, got {m}")
        k, d = int(m) // 2, prod(shape)
        z = (1j ** (bits(k * d, seed, name) % np.uint64(4)).astype(np.int64)).round().reshape(k, d)
        return cls(shape, np.concatenate([z.real, z.imag]), 1 / sqrt(k))


@right("One entry of each of m strata, times the root of the stratum's size; it claims the largest stratum's.")
class StratifiedMask(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        k = min(int(m), d)
        edges = np.arange(k + 1) * d // k
        sizes = np.diff(edges)
        table = np.zeros((k, d))
        at = edges[:-1] + (bits(k, seed, name) % sizes.astype(np.uint64)).astype(np.int64)
        table[np.arange(k), at] = np.sqrt(sizes)
        made = cls(shape, table, 1.0)
        made.factor = float(sizes.max() - 1)
        return made

    def variance_factor(self):
        return self.factor


@right("Subtracts hashed buckets in place of adding them (a correlation): the same law as TensorSketch.")
class TensorByCorrelation(Tensor):
    def meet(self, a, b):
        return (a - b) % self.m

    def join(self, a, b):
        spectrum = np.fft.rfft(a) * np.conj(np.fft.rfft(b))
        return np.fft.irfft(spectrum.sum(axis=-2), n=self.m)


@right("A TensorSketch whose sums over tokens are taken by explicit circular convolution, not by FFT.")
class TensorByRolling(Tensor):
    def join(self, a, b):
        shift = (np.arange(self.m)[:, None] - np.arange(self.m)[None]) % self.m
        return np.einsum("...ti,...tki->...k", a, b[..., shift])


@right("A TensorSketch with XOR for the addition, at powers of two only; it claims the 8/m that XOR costs.")
class XorTensorHonest(Tensor):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m & (m - 1):
            raise ValueError(f"m must be a power of two, got {m}")
        return super().draw(shape, m, seed=seed, name=name)

    def meet(self, a, b):
        return a ^ b

    def join(self, a, b):
        at = np.arange(self.m)
        return np.einsum("...ti,...tki->...k", a, b[..., at[:, None] ^ at[None]])

    def variance_factor(self):
        return 8 / self.m


@right("A CountSketch of each side, all pairs kept (k1 k2 numbers, fewer than m), with the Kronecker claim.")
class KroneckerCount(Tensor):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d1, d2 = matrix_shape(tuple(shape))
        k1 = min(d1, m if d2 == 1 else isqrt(m))
        k2 = min(d2, m // k1)
        (h, s), (k, t) = (
            (np.arange(d), np.ones(d, dtype=np.int64)) if w == d else cls.side(d, w, seed, name, side)
            for d, w, side in ((d1, k1, "rows"), (d2, k2, "cols"))
        )
        made = cls(shape, k1 * k2, h, s, k, t)
        made.widths, made.sides = (k1, k2), (d1, d2)
        return made

    def meet(self, a, b):
        return a * self.widths[1] + b

    def apply_outer(self, u, v):
        u, v = (floats(side) for side in self._check_pair(u, v))
        a, b = scatter(u, self.h, self.s, self.widths[0]), scatter(v, self.k, self.t, self.widths[1])
        return (a.swapaxes(-1, -2) @ b).reshape(*u.shape[:-2], self.m)

    def variance_factor(self):
        f = [0.0 if k == d else 2 / k for k, d in zip(self.widths, self.sides, strict=True)]
        return (1 + f[0]) * (1 + f[1]) - 1
