"""Sketches of a sceptic who had not read the checks: what the sketches of a sceptic are made of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod, sqrt
from typing import Any

import numpy as np

from sdi import LinearSketch
from sdi.sketch import bits
from sdi.sketch.hashing import sign_bits, signs_of
from sdi.sketch.protocol import check_m, matrix_shape


@dataclass(frozen=True)
class Case:
    name: str
    make: Any  # a class
    broken: bool
    reason: str
    group: str = ""
    unsure: str = ""  # why the label might be argued with; empty if it cannot


CASES: list[Case] = []


def broken(group: str, reason: str, unsure: str = "") -> Callable[[type], type]:
    return lambda cls: (CASES.append(Case(cls.__name__, cls, True, reason, group, unsure)), cls)[1]


def right(reason: str, unsure: str = "") -> Callable[[type], type]:
    return lambda cls: (CASES.append(Case(cls.__name__, cls, False, reason, "right", unsure)), cls)[1]


def flat_of(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return x.reshape(*x.shape[: x.ndim - len(shape)], prod(shape))


def floats(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


def scatter(x: np.ndarray, h: np.ndarray, s: np.ndarray, m: int) -> np.ndarray:
    signed = x * s
    if signed.dtype == np.float64 and x.dtype == np.float64 and h.ndim == 1 and signed.size:
        rows = signed.reshape(-1, len(h))
        places = h + m * np.arange(len(rows))[:, None]
        return np.bincount(places.ravel(), rows.ravel(), m * len(rows)).reshape(*x.shape[:-1], m)
    y = np.zeros((*x.shape[:-1], m), dtype=np.result_type(x, np.float32))
    np.add.at(y, (..., h), signed)
    return y


def uniform(count: int, *words: object) -> np.ndarray:
    return ((bits(count, *words) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


class Base(LinearSketch):
    @property
    def shape(self):
        return self._shape

    @property
    def size(self):
        return self._size


class Count(Base):
    """A CountSketch of the flattened parameter; the parts are there to be replaced."""

    def __init__(self, shape, m, h, s):
        check_m(m)
        self._shape, self.m, self._size, self.h, self.s = tuple(int(k) for k in shape), int(m), int(m), h, s

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        return cls(shape, m, cls.buckets(d, m, seed, name), cls.signs(d, m, seed, name))

    @classmethod
    def buckets(cls, d, m, seed, name):
        return (bits(d, seed, name, "h") % np.uint64(m)).astype(np.int64)

    @classmethod
    def signs(cls, d, m, seed, name):
        return signs_of(bits(d, seed, name, "s")).astype(np.int64)

    def tables(self):
        return {"h": self.h, "s": self.s}

    def apply(self, x):
        return self.of_flat(flat_of(floats(self._check(x)), self.shape))

    def of_flat(self, f):
        return scatter(f, self.h, self.s, self.m)

    def variance_factor(self):
        return 2 / self.m


class Dense(Base):
    """A matrix (size, D), times a scale."""

    def __init__(self, shape, table, scale):
        self._shape, self._size, self.table = tuple(int(k) for k in shape), len(table), table
        self.scale, self.m = float(scale), len(table)

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        return cls(shape, cls.matrix(tuple(shape), int(m), seed, name), cls.scaling(tuple(shape), m))

    @classmethod
    def matrix(cls, shape, m, seed, name):
        return sign_bits(m * prod(shape), seed, name).reshape(m, -1).astype(np.float64)

    @classmethod
    def scaling(cls, shape, m):
        return 1 / sqrt(m)

    def tables(self):
        return {"table": self.table}

    def apply(self, x):
        f = flat_of(floats(self._check(x)), self.shape)
        f = f.astype(np.float32) if f.dtype == np.float16 else f
        return f @ self.table.T.astype(f.dtype) * self.scale

    def variance_factor(self):
        return 2 / self.size


class Tensor(Base):
    """A TensorSketch: rows and columns hashed, buckets added modulo m."""

    def __init__(self, shape, m, h, s, k, t):
        check_m(m)
        self._shape, self.m, self._size = tuple(int(n) for n in shape), int(m), int(m)
        self.h, self.s, self.k, self.t = h, s, k, t

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d1, d2 = matrix_shape(tuple(shape))
        (h, s), (k, t) = (cls.side(d, m, seed, name, side) for d, side in ((d1, "rows"), (d2, "cols")))
        return cls(shape, m, h, s, k, t)

    @classmethod
    def side(cls, d, m, seed, name, side):
        h = (bits(d, seed, name, side, "h") % np.uint64(m)).astype(np.int64)
        return h, signs_of(bits(d, seed, name, side, "s")).astype(np.int64)

    def tables(self):
        return {"h": self.h, "s": self.s, "k": self.k, "t": self.t}

    def meet(self, a, b):
        return (a + b) % self.m

    def apply(self, x):
        f = flat_of(floats(self._check(x)), self.shape)
        H, S = self.meet(self.h[:, None], self.k[None]), self.s[:, None] * self.t[None]
        return scatter(f, H.ravel(), S.ravel(), self.m)

    def apply_outer(self, u, v):
        u, v = (floats(side) for side in self._check_pair(u, v))
        a, b = scatter(u, self.h, self.s, self.m), scatter(v, self.k, self.t, self.m)
        return self.join(a, b)

    def join(self, a, b):  # (..., T, m) each, to (..., m)
        return np.fft.irfft((np.fft.rfft(a) * np.fft.rfft(b)).sum(axis=-2), n=self.m)

    def variance_factor(self):
        return 2 * (2 - self.m % 2) / self.m**2 + 6 / self.m


def hadamard_rows(rows, d):
    common = np.asarray(rows)[:, None] & np.arange(d)[None]
    for shift in (32, 16, 8, 4, 2, 1):
        common = common ^ (common >> shift)
    return (1 - 2 * (common & 1)).astype(np.float64)


def padded(d):
    return 1 << (d - 1).bit_length()


class CountTwin:
    """A CountSketch on a device."""

    def __init__(self, sketch, device, dtype):
        import torch

        self.sketch, self.m, self.dtype, self.device = sketch, sketch.size, dtype, device
        self.h = torch.as_tensor(np.asarray(sketch.h), device=device)
        self.s = torch.as_tensor(np.asarray(sketch.s), device=device).to(dtype)
        self.d_in = matrix_shape(sketch.shape)[1]

    def apply(self, G):
        f = G.reshape(len(G), prod(self.sketch.shape))
        return f.new_zeros(len(G), self.m).index_add_(1, self.h, f * self.s)

    def apply_rows(self, index, v):
        at = (index[..., None] * self.d_in + index.new_tensor(range(self.d_in))).flatten(1)
        return v.new_zeros(len(v), self.m).scatter_add_(1, self.h[at], v.flatten(1) * self.s[at])


class WithTwin(Count):
    twin = CountTwin

    def to_torch(self, device, dtype):
        return self.twin(self, device, dtype)
