"""Exact moments of the sketches that are no hashes: independent columns, two-sided products, listed draws.

<S x, S y> = sum over (i, k) of (c_i . c_k) x_i y_k, with c_i the columns of S. If the columns are independent and
alike, E (c_i . c_k)(c_i' . c_k') depends only on which of the four indices are equal, and is a contraction of the
column's own moments of order at most four. A monomial of the second moment has at most four indices, so four columns
settle every number of columns.

A law is finite and in integers. The Gaussian is no exception: up to order five its moments are those of
{-sqrt 3, 0, sqrt 3} with probabilities 1/6, 2/3, 1/6, and no moment here has a higher order.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations, product
from math import lcm
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from .biquadratic import SAFE, Form
from .moments import Moments, all_buckets, all_signs

Array = np.ndarray
D = 4  # columns that settle every number of columns


class Law(NamedTuple):
    """A column is one of `vectors`, chosen by its weight, over sqrt(scale)."""

    vectors: Int[Array, "choices rows"]
    weights: Int[Array, "choices"]
    scale: Fraction


class Gram(NamedTuple):
    """E c_i . c_k and E (c_i . c_k)(c_i' . c_k') of four columns, each over its denominator."""

    mean: Int[Array, "i k"]
    mean_denominator: int
    second: Int[Array, "i k i2 k2"]
    denominator: int

    @property
    def moments(self) -> Moments:
        """The Moments of <S x, S y>."""
        n = len(self.mean)
        c = self.second.transpose(0, 2, 1, 3).reshape(n * n, n * n)
        return Moments(self.mean, self.mean_denominator, Form.reduced(c, self.denominator))


def gaussian_column(m: int) -> Law:
    """m independent N(0, 1) / sqrt(m)."""
    vectors = all_buckets(m, 3) - 1
    return Law(vectors, np.where(vectors == 0, 4, 1).prod(-1), Fraction(m, 3))


def sign_column(m: int) -> Law:
    """m independent signs / sqrt(m)."""
    return Law(all_signs(m), np.ones(2**m, dtype=np.int64), Fraction(m))


def sparse_column(m: int, s: int) -> Law:
    """Signs / sqrt(s) in s different rows of m, every set of rows as likely as the others."""
    vectors = np.zeros((0, m), dtype=np.int64)
    for rows in combinations(range(m), s):
        signed = np.zeros((2**s, m), dtype=np.int64)
        signed[:, rows] = all_signs(s)
        vectors = np.concatenate([vectors, signed])
    return Law(vectors, np.ones(len(vectors), dtype=np.int64), Fraction(s))


def gram_of_columns(law: Law) -> Gram:
    """For four independent columns of this law."""
    return Gram(*_over_one_denominator(_filled(law, 2)), *_over_one_denominator(_filled(law, 4)))


def two_sided(left: Gram, right: Gram) -> Moments:
    """The Moments of <A X B^T, A Y B^T>, A and B independent: entry (i, j) of X meets (k, l) of Y by both grams."""
    n = len(left.mean) * len(right.mean)
    if int(np.abs(left.second).max()) * int(np.abs(right.second).max()) > SAFE:
        raise OverflowError("the product of two second moments does not fit 63 bits")
    mean = np.einsum("ik,jl->ijkl", left.mean, right.mean).reshape(n, n)
    second = np.multiply.outer(left.second, right.second)  # i, k, i', k', j, l, j', l'
    second = second.transpose(0, 4, 1, 5, 2, 6, 3, 7).reshape((n,) * 4)
    below = left.mean_denominator * right.mean_denominator
    return Gram(mean, below, second, left.denominator * right.denominator).moments


def moments_of_draws(draws: Iterable[tuple[Fraction, Any]], scale: Fraction) -> Moments:
    """The Moments of sketches listed with their probabilities; refused if `dense()` times sqrt(scale) is not whole."""
    listed = list(draws)
    if sum(p for p, _ in listed) != 1:
        raise ValueError(f"the probabilities of all draws must sum to 1, got {sum(p for p, _ in listed)}")
    common = lcm(*(p.denominator for p, _ in listed))
    weights = np.array([int(p * common) for p, _ in listed])
    gram = np.stack([_whole(sketch.dense(), scale) for _, sketch in listed])  # scale T^T T
    n = gram.shape[1]
    flat = gram.reshape(-1, n * n)
    mean, second = weights @ flat, (weights[:, None] * flat).T @ flat
    # over common * scale and common * scale^2, with the denominators of scale brought up
    up, down = scale.denominator, scale.numerator
    return Gram(up * mean.reshape(n, n), common * down, up**2 * second.reshape((n,) * 4), common * down**2).moments


def _filled(law: Law, order: int) -> Array:
    table = np.empty((D,) * order, dtype=object)
    known: dict[tuple[int, ...], Fraction] = {}
    for at in product(range(D), repeat=order):
        pattern = _pattern(at)
        if pattern not in known:
            known[pattern] = _expectation(law, pattern)
        table[at] = known[pattern]
    return table


def _over_one_denominator(table: Array) -> tuple[Int[Array, "..."], int]:
    below = lcm(*(c.denominator for c in table.ravel()))
    return np.array([int(c * below) for c in table.ravel()]).reshape(table.shape), below


def _whole(dense: Array, scale: Fraction) -> Int[Array, "n n"]:
    """scale T^T T, in integers."""
    scaled = dense.astype(np.float64) * float(scale) ** 0.5
    whole = np.rint(scaled)
    if np.abs(scaled - whole).max() > 1e-9:
        raise ValueError(f"a sketch times sqrt({scale}) must be whole, got {scaled[scaled != whole][:3]}")
    T = whole.astype(np.int64)
    return T.T @ T


def _expectation(law: Law, indices: tuple[int, ...]) -> Fraction:
    """E (c_i . c_k) or E (c_i . c_k)(c_i' . c_k'): equal indices are one column, others are independent."""
    slots = "aabb"[: len(indices)]  # c_i[a] c_k[a] c_i'[b] c_k'[b]
    groups = ["".join(slots[p] for p, i in enumerate(indices) if i == j) for j in sorted(set(indices))]
    powers = [_power(law, len(group)) for group in groups]
    if not all(power.any() for power in powers):
        return Fraction(0)
    size = int(law.weights.sum()) ** len(groups)
    if size * law.vectors.shape[1] ** 2 * int(np.abs(law.vectors).max()) ** 4 > SAFE:
        raise OverflowError(f"a sum over {size} choices does not fit 63 bits")
    total = int(np.einsum(",".join(groups) + "->", *powers))
    return Fraction(total, size) / law.scale ** (len(indices) // 2)


def _power(law: Law, order: int) -> Int[Array, "..."]:
    """The sum over all choices of weight times the vector's tensor power."""
    total, vectors = law.weights, law.vectors
    for _ in range(order):
        total = np.einsum("z...,za->z...a", total, vectors)
    return np.asarray(total.sum(0))


def _pattern(indices: tuple[int, ...]) -> tuple[int, ...]:
    """Which indices are equal: (7, 5, 7) is (0, 1, 0)."""
    seen: dict[int, int] = {}
    return tuple(seen.setdefault(i, len(seen)) for i in indices)
