"""Sketches of a sceptic who had not read the checks: more faults, and more right ones."""

# ruff: noqa: RUF012  (as the sceptic wrote them)

from __future__ import annotations

from math import prod, sqrt

import numpy as np
from sceptic_bases import Count, Dense, WithTwin, broken, right, scatter
from sceptic_paths import OuterTwin
from sceptic_right import BlockSparse
from sceptic_right_too import DuckTyped

from sdi.sketch import bits
from sdi.sketch.hashing import normals, sign_bits


@right("The claim is the exact supremum, (2 - 2/D)/m, attained by flat gradients: no slack at all.")
class TightCount(Count):
    def variance_factor(self):
        return (2 - 2 / prod(self.shape)) / self.m


@right("Tables are cached by all of the arguments: draws return one object, and nothing else changes.")
class CachedByAll(Count):
    made: dict = {}

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = (tuple(shape), int(m), int(seed), name)
        if key not in cls.made:
            cls.made[key] = super().draw(shape, m, seed=seed, name=name)
        return cls.made[key]


@right("Shape and m are part of the key: sketches of two widths have nothing in common.")
class KeyOfEverything(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=f"{seed}|{tuple(shape)}|{m}", name=name)


@right("Signs are held as packed bits, and unpacked in apply.")
class PackedSigns(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        made = super().draw(shape, m, seed=seed, name=name)
        made.packed, made.s = np.packbits(made.s < 0), None
        return made

    def tables(self):
        return {"h": self.h, "packed": self.packed}

    def of_flat(self, f):
        s = 1 - 2 * np.unpackbits(self.packed, count=len(self.h)).astype(np.int64)
        return scatter(f, self.h, s, self.m)


@right("Computes and returns float64 whatever it is given.")
class AlwaysDouble(Count):
    def of_flat(self, f):
        return super().of_flat(f.astype(np.float64))


@right("Results cannot be written to.")
class ReadOnlyResults(Count):
    def of_flat(self, f):
        y = super().of_flat(f)
        y.flags.writeable = False
        return y


class ChunkedTwin(OuterTwin):
    token_numbers = 64

    def apply_outer(self, u, v):
        y = u.new_zeros(len(u), self.m)
        for k in range(0, u.shape[1], 7):
            y = y + super().apply_outer(u[:, k : k + 7], v[:, k : k + 7])
        return y


@right("A twin that takes tokens by sevens, and is given them in parts (`token_numbers`).")
class TwinByChunks(WithTwin):
    twin = ChunkedTwin


@right("Refuses widths below 4 and odd ones; else one CountSketch into each quarter or half.")
class RefusesSome(BlockSparse):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if m < 4 or m % 2:
            raise ValueError(f"m must be even and at least 4, got {m}")
        return super().draw(shape, m, seed=seed, name=name)


@broken("hashing", "y[h] += x s adds each bucket once: of the entries that share a bucket, all but the last are lost.")
class FancyAdd(Count):
    def of_flat(self, f):
        y = np.zeros((*f.shape[:-1], self.m), dtype=np.result_type(f, np.float32))
        y[..., self.h] += f * self.s.astype(f.dtype)
        return y


@broken("shape", "bincount without minlength: where the last bucket is empty, there are too few numbers.")
class BincountWithoutLength(Count):
    def of_flat(self, f):
        rows = f.reshape(-1, f.shape[-1])
        n = int(self.h.max()) + 1
        y = np.array([np.bincount(self.h, weights=row * self.s) for row in rows]).reshape(len(rows), n)
        return y.reshape(*f.shape[:-1], n).astype(np.result_type(f, np.float32))


@broken(
    "shape", "reduceat over sorted entries: an empty bucket gets the next entry in place of 0, so some count twice."
)
class ReduceAt(Count):
    def of_flat(self, f):
        order = np.argsort(self.h, kind="stable")
        starts = np.minimum(np.searchsorted(self.h[order], np.arange(self.m)), len(order) - 1)
        x = (f * self.s.astype(f.dtype))[..., order]
        return np.add.reduceat(x, starts, axis=-1)


@broken(
    "hashing", "Buckets are a line modulo the prime 257: entries 257 apart always meet, and one line in 257 is flat."
)
class PrimeTooSmall(Count):
    @classmethod
    def buckets(cls, d, m, seed, name):
        a, b = (int(w) % 257 for w in bits(2, seed, name, "h"))
        return (np.arange(d) * a + b) % 257 % m


@broken(
    "hashing", "The low bits of a congruential generator have short periods: signs alternate, buckets repeat after m."
)
class LowBitsOfLcg(Count):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        state, states = int(bits(1, seed, name)[0]) & 0xFFFFFFFF, []
        for _ in range(prod(shape)):
            state = (1664525 * state + 1013904223) & 0xFFFFFFFF
            states.append(state)
        w = np.array(states)
        return cls(shape, m, (w >> 1) % int(m), 1 - 2 * (w & 1))


@broken(
    "scale",
    "One random reflection mixes too little: the first m coordinates keep most of their weight, others lose it.",
)
class OneReflection(Dense):
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        k = min(int(m), d)
        v = normals(d, seed, name).astype(np.float64)
        return cls(shape, (np.eye(d) - 2 * np.outer(v, v) / (v @ v))[:k], sqrt(d / k))

    def variance_factor(self):
        return max(prod(self.shape) / self.size, 2.0)


@broken(
    "scale", "Normal numbers are rounded to integers, which adds 1/12 to their variance: squared norms are 8% high."
)
class RoundedNormal(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        return np.rint(normals(m * prod(shape), seed, name).astype(np.float64)).reshape(m, -1)


@broken("scale", "Entries below 0.5 of a normal matrix are set to 0 for sparsity: squared norms are 3% low.")
class SparsifiedNormal(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        g = normals(m * prod(shape), seed, name).astype(np.float64).reshape(m, -1)
        return np.where(np.abs(g) < 0.5, 0.0, g)


@broken("claim", "4096 sign bits are used over and over: where D divides 4096, rows repeat after 4096/D.")
class RecycledBits(Dense):
    @classmethod
    def matrix(cls, shape, m, seed, name):
        return np.resize(sign_bits(4096, seed, name).astype(np.float64), (m, prod(shape)))


@broken("state", "Tables are put on the class: every draw changes all sketches that were drawn before.")
class TablesOnClass(Count):
    def __init__(self, shape, m, h, s):
        super().__init__(shape, m, h, s)
        del self.h, self.s
        type(self).h, type(self).s = h, s

    def of_flat(self, f):
        h, s = np.resize(self.h, f.shape[-1]) % self.m, np.resize(self.s, f.shape[-1])
        return scatter(f, h, s, self.m)


@broken("protocol", "draw takes no name.")
class DrawWithoutName(Count):
    @classmethod
    def draw(cls, shape, m, *, seed):
        return super().draw(shape, m, seed=seed, name="")


@broken("protocol", "size is a method, not a property.")
class SizeIsMethod(Count):
    def size(self):
        return self.m


@broken("protocol", "Not a LinearSketch, and without apply_outer and nbytes.")
class LacksHalf:
    def __init__(self, shape, m, h, s):
        self.shape, self.size, self.h, self.s = tuple(shape), int(m), h, s

    draw = DuckTyped.__dict__["draw"]
    tables, apply, variance_factor = DuckTyped.tables, DuckTyped.apply, DuckTyped.variance_factor
