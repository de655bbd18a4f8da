"""MaskSketch: m entries of the parameter, chosen at random, and nothing of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import comb, prod, sqrt
from typing import ClassVar

import numpy as np
from jaxtyping import Int, Shaped

from sdi.sketch.hashing import distinct
from sdi.sketch.protocol import Draws, Shape, check_m, check_shape, matrix_shape
from sdi.sketch.shipped.scaled_integers import ScaledIntegers, as_floats, flattened, read_only

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class MaskSketch(ScaledIntegers):
    """m of the D entries, chosen without replacement, times sqrt(D / m).

    With a_i = x_i y_i, <S x, S y> is D times the mean of a sample of m of the a_i, so its variance is
    (D - m) / (m (D - 1)) (D sum a_i^2 - (sum a_i)^2). The bracket is convex in a, and sum |a_i| <= |x| |y|: it is
    largest where one entry holds everything, D - 1. So the factor is (D - m) / m, attained by x = y = e_i: not small.
    A mask is good only for gradients that are spread evenly.
    index: the chosen entries of the flattened parameter. of: its shape.

    >>> MaskSketch.draw((8, 6), 16, seed=0, name="w").apply(np.ones((8, 6))).shape
    (16,)
    """

    index: Int[Array, "m"]  # in the flattened parameter
    of: Shape
    kind: ClassVar[str] = "mask"

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", check_shape(self.of, "MaskSketch"))
        index = np.asarray(self.index)
        good = index.ndim == 1 and index.dtype.kind in "iu" and index.size > 0
        if not good or index.min() < 0 or index.max() >= prod(self.of) or len(np.unique(index)) < len(index):
            raise ValueError(f"index must hold distinct integers from 0 to {prod(self.of) - 1}, got {index[:5]}")
        read_only(self, index=index.astype(np.int64))

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "") -> MaskSketch:
        check_m(m)
        shape = check_shape(shape, "MaskSketch")
        return cls(distinct(min(m, prod(shape)), prod(shape), seed, name, "mask"), shape)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """Every set of entries. shape: of the parameter. m: numbers."""
        D = prod(check_shape(shape, "MaskSketch"))
        size = min(m, D)
        for chosen in combinations(range(D), size):
            yield Fraction(1, comb(D, size)), cls(np.array(chosen), shape)

    @classmethod
    def of_tables(cls, shape: Shape, m: int, tables: Mapping[str, Array]) -> MaskSketch:
        """The sketch whose `tables()` these are. shape: of the parameter. m: its size."""
        return cls(tables["index"], shape)

    @property
    def size(self) -> int:
        return len(self.index)

    @property
    def squared_scale(self) -> Fraction:
        return Fraction(prod(self.of), self.size)

    def tables(self) -> dict[str, Array]:
        return {"index": self.index}

    def integers(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]:
        return flattened(x, self.of)[..., self.index]

    def apply_outer(self, u: Shaped[Array, "... T d_out"], v: Shaped[Array, "... T d_in"]) -> Shaped[Array, "... m"]:
        """The sketch of the sum over T of outer(u, v); only its chosen entries are computed."""
        u, v = (as_floats(side) for side in self._check_pair(u, v))
        i, j = np.divmod(self.index, matrix_shape(self.of)[1])
        return (u[..., i] * v[..., j]).sum(axis=-2) * sqrt(self.squared_scale)

    def variance_factor(self) -> float:
        return (prod(self.of) - self.size) / self.size
