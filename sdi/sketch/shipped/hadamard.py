"""HadamardSketch: the subsampled randomised Hadamard transform, taken of both sides of a matrix."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from itertools import product as every
from math import comb, prod, sqrt
from typing import ClassVar

import numpy as np
from jaxtyping import Int, Int8, Shaped

from sdi.sketch.estimate_variance import Pairs, between, over_entries
from sdi.sketch.hashing import bits, distinct, signs_of
from sdi.sketch.protocol import Draws, Shape, check_m, check_shape, matrix_shape
from sdi.sketch.shipped.scaled_integers import ScaledIntegers, as_floats, check_signs, read_only

Array = np.ndarray
CHUNK_BYTES = 1 << 26


@dataclass(frozen=True, eq=False)
class HadamardSketch(ScaledIntegers):
    """y_k = (1/sqrt(m)) sum_ij H(r_k, i) s_i X_ij t_j H'(c_k, j): m entries of the transform of X, chosen at random.

    s and t are random signs; H and H' are Hadamard matrices of +-1 with p1 and p2 rows, the powers of two from d1 and
    d2 on; the m pairs (r, c) are distinct. Before the choice, the transform over sqrt(N), N = p1 p2, keeps inner
    products exactly. Given the signs, a sample of m products z_k w_k out of N has the variance
    (N - m) / (m (N - 1)) (N sum z_k^2 w_k^2 - (X.Y)^2). Over the signs, all rows of H s are alike, so
    N sum z_k^2 w_k^2 has the mean E (s^T X t)^2 (s^T Y t)^2, and

        Var = (N - m) / (N - 1) / m * (E (s^T X t)^2 (s^T Y t)^2 - (X.Y)^2).

    The bracket is the variance of TensorSketch with one bucket: at most 8 |X|^2 |Y|^2, approached by flat rank-one
    X = Y. If one side has a single entry, it is CountSketch's with one bucket: at most 2.
    out_signs, in_signs: s and t. out_at, in_at: r and c. of: the shape of the parameter.

    >>> HadamardSketch.draw((8, 6), 16, seed=0, name="w").apply(np.ones((8, 6))).shape
    (16,)
    """

    out_signs: Int8[Array, "d1"]
    in_signs: Int8[Array, "d2"]
    out_at: Int[Array, "m"]  # r
    in_at: Int[Array, "m"]  # c
    of: Shape
    kind: ClassVar[str] = "hadamard"

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", check_shape(self.of, "HadamardSketch"))
        sides = matrix_shape(self.of)
        for side, d in zip(("out", "in"), sides, strict=True):
            signs, at = getattr(self, f"{side}_signs"), np.asarray(getattr(self, f"{side}_at"))
            if signs.shape != (d,):
                raise ValueError(f"{side}_signs must have shape ({d},), got {signs.shape}")
            if at.ndim != 1 or at.dtype.kind not in "iu" or at.size == 0 or at.min() < 0 or at.max() >= padded(d):
                raise ValueError(f"{side}_at must hold integers from 0 to {padded(d) - 1}, got {at.dtype} {at[:5]}")
            tables = {f"{side}_signs": check_signs(f"{side}_signs", signs), f"{side}_at": at.astype(np.int64)}
            read_only(self, **tables)
        if len(set(zip(self.out_at.tolist(), self.in_at.tolist(), strict=True))) != len(self.out_at):
            raise ValueError("the pairs (out_at, in_at) must be distinct")

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "") -> HadamardSketch:
        check_m(m)
        shape = check_shape(shape, "HadamardSketch")
        sides = matrix_shape(shape)
        out_signs, in_signs = (
            signs_of(bits(d, seed, name, "hadamard", side)) if d > 1 else np.ones(1, dtype=np.int8)
            for d, side in zip(sides, ("out", "in"), strict=True)
        )
        p1, p2 = (padded(d) for d in sides)
        at = distinct(min(m, p1 * p2), p1 * p2, seed, name, "hadamard", "at")
        return cls(out_signs, in_signs, at // p2, at % p2, shape)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """Every choice of signs and of pairs; the sign of a side of one entry is left out.

        shape: of the parameter. m: numbers.
        """
        d1, d2 = matrix_shape(check_shape(shape, "HadamardSketch"))
        p1, p2 = padded(d1), padded(d2)
        outs, ins = (list(every((-1, 1), repeat=d)) if d > 1 else [(1,)] for d in (d1, d2))
        size = min(m, p1 * p2)
        one = Fraction(1, len(outs) * len(ins) * comb(p1 * p2, size))
        for out_signs, in_signs, chosen in every(outs, ins, combinations(range(p1 * p2), size)):
            at = np.array(chosen)
            yield one, cls(np.array(out_signs), np.array(in_signs), at // p2, at % p2, shape)

    @classmethod
    def of_tables(cls, shape: Shape, m: int, tables: Mapping[str, Array]) -> HadamardSketch:
        """The sketch whose `tables()` these are. shape: of the parameter. m: its size."""
        return cls(**tables, of=shape)

    @property
    def size(self) -> int:
        return len(self.out_at)

    @property
    def squared_scale(self) -> Fraction:
        return Fraction(1, self.size)

    def tables(self) -> dict[str, Array]:
        return {k: getattr(self, k) for k in ("out_signs", "in_signs", "out_at", "in_at")}

    def integers(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]:
        lead, sides = x.shape[: x.ndim - len(self.of)], matrix_shape(self.of)
        X = (x.astype(np.int64) if x.dtype.kind in "iub" else x).reshape(prod(lead), *sides)
        out, in_ = (
            (hadamard(at, np.arange(d)) * signs).astype(X.dtype)
            for at, d, signs in zip((self.out_at, self.in_at), sides, (self.out_signs, self.in_signs), strict=True)
        )
        y = np.empty((len(X), self.size), dtype=X.dtype)
        rows = max(1, CHUNK_BYTES // (X.itemsize * max(len(X), 1) * sides[1]))
        for k in range(0, self.size, rows):
            part = slice(k, k + rows)
            y[:, part] = ((out[part] @ X) * in_[part]).sum(axis=-1)
        return y.reshape(*lead, self.size)

    def apply_outer(self, u: Shaped[Array, "... T d_out"], v: Shaped[Array, "... T d_in"]) -> Shaped[Array, "... m"]:
        """The sketch of the sum over T of outer(u, v), by transforming u and v apart; no outer product is formed."""
        u, v = (as_floats(side) for side in self._check_pair(u, v))
        a, b = walsh_hadamard(u * self.out_signs), walsh_hadamard(v * self.in_signs)
        return (a[..., self.out_at] * b[..., self.in_at]).sum(axis=-2) * sqrt(self.squared_scale)

    def variance_factor(self) -> float:
        d1, d2 = matrix_shape(self.of)
        N, m = padded(d1) * padded(d2), self.size
        return (N - m) / max(N - 1, 1) * (8 if min(d1, d2) > 1 else 2) / m

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """The variance of each inner product, estimated from sketched numbers. pairs: their norms and products."""
        N = prod(padded(d) for d in matrix_shape(self.of))
        return between(self.variance_factor(), pairs, over_entries(pairs, N))


def padded(d: int) -> int:
    """The smallest power of two that is at least d."""
    return 1 << (d - 1).bit_length()


def hadamard(i: Int[Array, "n"], j: Int[Array, "d"]) -> Int8[Array, "n d"]:
    """H(i, j) = (-1)^(the number of bits that i and j share)."""
    common = i[:, None] & j[None, :]
    for shift in (32, 16, 8, 4, 2, 1):
        common = common ^ (common >> shift)
    return (1 - 2 * (common & 1)).astype(np.int8)


def walsh_hadamard(x: Shaped[Array, "... d"]) -> Shaped[Array, "... p"]:
    """H x, with x padded to a power of two: log2 p passes of sums and differences.

    >>> walsh_hadamard(np.array([1, 2, 3])).tolist()
    [6, 2, 0, -4]
    """
    d, p = x.shape[-1], padded(x.shape[-1])
    y = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, p - d)])
    half = 1
    while half < p:
        pairs = y.reshape(*y.shape[:-1], p // (2 * half), 2, half)
        y = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2)
        y = y.reshape(*x.shape[:-1], p)
        half *= 2
    return y
