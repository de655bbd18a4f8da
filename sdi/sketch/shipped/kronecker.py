"""KroneckerSketch: a projection of the rows and one of the columns, (P kron Q) x, as LoGra projects gradients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as every
from math import sqrt
from typing import ClassVar

import numpy as np
from jaxtyping import Int8, Shaped

from sdi.sketch.estimate_variance import Pairs, between, over_grid
from sdi.sketch.hashing import sign_bits
from sdi.sketch.protocol import Draws, Shape, check_m, check_shape, matrix_shape
from sdi.sketch.shipped.scaled_integers import ScaledIntegers, as_floats, check_signs, read_only

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class KroneckerSketch(ScaledIntegers):
    """S X = P X Q^T with P = L / sqrt(k1), Q = R / sqrt(k2), independent signs L (k1 x d1) and R (k2 x d2).

    A side with at most its k entries is kept as it is (None here): it has no error. <S X, S Y> = tr(P^T P Y Q^T Q X^T).
    The entries of A = P^T P have E A_ij A_kl = d_ij d_kl + (d_ik d_jl + d_il d_jk - 2 d_ijkl) / k1, so for any matrix N
    E tr(A N)^2 <= tr(N)^2 + (|N|^2 + tr N^2) / k1. Taken for both sides, one after the other, with t = tr(X^T Y X^T Y),

        Var <= (|X Y^T|^2 + t) / k1 + (|X^T Y|^2 + t) / k2
               + (|X|^2 |Y|^2 + (X.Y)^2 + |X Y^T|^2 + |X^T Y|^2) / (k1 k2)
            <= ((1 + 2 / k1) (1 + 2 / k2) - 1) |X|^2 |Y|^2,

    with equality for normal numbers in place of signs, and approached by flat rank-one X = Y. With k1 = k2 = sqrt(m)
    this is 4 / sqrt(m) + 4 / m: the price of its speed. A kept side has a factor of 1.
    left, right: L and R. of: the shape of the parameter.

    >>> KroneckerSketch.draw((8, 6), 16, seed=0, name="w").apply(np.ones((8, 6))).shape
    (16,)
    """

    left: Int8[Array, "k1 d1"] | None
    right: Int8[Array, "k2 d2"] | None
    of: Shape
    kind: ClassVar[str] = "kronecker"

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", check_shape(self.of, "KroneckerSketch"))
        for name, table, d in zip(("left", "right"), (self.left, self.right), matrix_shape(self.of), strict=True):
            if table is None:
                continue
            if table.ndim != 2 or table.shape[1] != d:
                raise ValueError(f"{name} must have shape (k, {d}), got {table.shape}")
            read_only(self, **{name: check_signs(name, table)})

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "") -> KroneckerSketch:
        shape = check_shape(shape, "KroneckerSketch")
        sides = matrix_shape(shape)
        left, right = (
            None if k == d else sign_bits(k * d, seed, name, "kronecker", side).reshape(k, d)
            for k, d, side in zip(best_sides(sides, m), sides, ("left", "right"), strict=True)
        )
        return cls(left, right, shape)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """Every pair of matrices of signs. shape: of the parameter. m: numbers."""
        sides = matrix_shape(check_shape(shape, "KroneckerSketch"))
        (k1, k2) = best_sides(sides, m)
        for p, left in _every_side(k1, sides[0]):
            for q, right in _every_side(k2, sides[1]):
                yield p * q, cls(left, right, shape)

    @classmethod
    def of_tables(cls, shape: Shape, m: int, tables: Mapping[str, Array]) -> KroneckerSketch:
        """The sketch whose `tables()` these are. shape: of the parameter. m: its size."""
        return cls(tables.get("left"), tables.get("right"), shape)

    @property
    def k(self) -> tuple[int, int]:
        """The size of each side."""
        sides = zip((self.left, self.right), matrix_shape(self.of), strict=True)
        k1, k2 = (d if table is None else len(table) for table, d in sides)
        return k1, k2

    @property
    def size(self) -> int:
        return self.k[0] * self.k[1]

    @property
    def squared_scale(self) -> Fraction:
        return Fraction(1, (1 if self.left is None else self.k[0]) * (1 if self.right is None else self.k[1]))

    def tables(self) -> dict[str, Array]:
        return {name: t for name, t in (("left", self.left), ("right", self.right)) if t is not None}

    def integers(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... k1*k2"]:
        lead = x.shape[: x.ndim - len(self.of)]
        X = _wide(x).reshape(*lead, *matrix_shape(self.of))
        if self.left is not None:
            X = self.left.astype(X.dtype) @ X
        if self.right is not None:
            X = X @ self.right.T.astype(X.dtype)
        return X.reshape(*lead, self.size)

    def apply_outer(
        self, u: Shaped[Array, "... T d_out"], v: Shaped[Array, "... T d_in"]
    ) -> Shaped[Array, "... k1*k2"]:
        """The sketch of the sum over T of outer(u, v), by projecting u and v apart first."""
        u, v = (as_floats(side) for side in self._check_pair(u, v))
        u = u if self.left is None else u @ self.left.T.astype(u.dtype)
        v = v if self.right is None else v @ self.right.T.astype(v.dtype)
        return (u.swapaxes(-1, -2) @ v).reshape(*u.shape[:-2], self.size) * sqrt(self.squared_scale)

    def variance_factor(self) -> float:
        first, second = (0.0 if table is None else 2 / len(table) for table in (self.left, self.right))
        return (1 + first) * (1 + second) - 1

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """The variance of each inner product, estimated from sketched numbers. pairs: their norms and products."""
        drawn = (self.left is not None, self.right is not None)
        return between(self.variance_factor(), pairs, over_grid(pairs, self.k, drawn))


def best_sides(sides: tuple[int, int], m: int) -> tuple[int, int]:
    """(k1, k2) with k1 k2 <= m and the smallest variance factor, no side above its own size.

    >>> best_sides((768, 3072), 2048), best_sides((100, 1), 64), best_sides((4, 3072), 64)
    ((45, 45), (64, 1), (4, 16))
    """
    check_m(m)
    d1, d2 = sides
    k1 = np.arange(1, min(d1, m) + 1)
    k2 = np.minimum(m // k1, d2)
    factor = (1 + np.where(k1 < d1, 2 / k1, 0)) * (1 + np.where(k2 < d2, 2 / k2, 0))
    best = int(np.lexsort((-k1 * k2, factor))[0])
    return int(k1[best]), int(k2[best])


def _every_side(k: int, d: int) -> Iterator[tuple[Fraction, Array | None]]:
    if k == d:
        yield Fraction(1), None
        return
    for signs in every((-1, 1), repeat=k * d):
        yield Fraction(1, 2 ** (k * d)), np.array(signs).reshape(k, d)


def _wide(x: Array) -> Array:
    return x.astype(np.int64) if x.dtype.kind in "iub" else x
