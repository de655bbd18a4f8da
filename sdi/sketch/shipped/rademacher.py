"""RademacherSketch: a dense projection with independent signs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from itertools import product as every
from math import prod
from typing import ClassVar

import numpy as np
from jaxtyping import Int8, Shaped

from sdi.sketch.estimate_variance import Pairs, half_bound
from sdi.sketch.hashing import sign_bits
from sdi.sketch.protocol import Draws, Shape, check_m, check_shape
from sdi.sketch.shipped.dense_projection import check_dense, product
from sdi.sketch.shipped.scaled_integers import ScaledIntegers, check_signs, flattened, read_only

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class RademacherSketch(ScaledIntegers):
    """S = Z / sqrt(m), with m x D independent signs Z.

    <S x, S y> is the mean of m independent (z.x)(z.y), and E (z.x)^2 (z.y)^2 = |x|^2 |y|^2 + 2 (x.y)^2 - 2 sum x_i^2
    y_i^2: signs pair up as normal numbers do, but all four at one i are counted once, not thrice. So the variance is
    (|x|^2 |y|^2 + (x.y)^2 - 2 sum x_i^2 y_i^2) / m, that of CountSketch: at most 2 / m, approached by flat x = y.
    signs: Z. of: the shape of the parameter, of D entries.

    >>> RademacherSketch.draw((8, 6), 16, seed=0, name="w").apply(np.ones((8, 6))).shape
    (16,)
    """

    signs: Int8[Array, "m numbers"]
    of: Shape
    kind: ClassVar[str] = "rademacher"

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", check_shape(self.of, "RademacherSketch"))
        if self.signs.ndim != 2 or self.signs.shape[1] != prod(self.of):
            raise ValueError(f"signs must have shape (m, {prod(self.of)}), got {self.signs.shape}")
        read_only(self, signs=check_signs("signs", self.signs))

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "") -> RademacherSketch:
        check_m(m)
        shape = check_shape(shape, "RademacherSketch")
        check_dense(m, shape, name, cls.kind)
        return cls(sign_bits(m * prod(shape), seed, name, "rademacher").reshape(m, prod(shape)), shape)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """Every matrix of signs. shape: of the parameter. m: numbers."""
        count = m * prod(shape)
        for signs in every((-1, 1), repeat=count):
            yield Fraction(1, 2**count), cls(np.array(signs).reshape(m, prod(shape)), shape)

    @classmethod
    def of_tables(cls, shape: Shape, m: int, tables: Mapping[str, Array]) -> RademacherSketch:
        """The sketch whose `tables()` these are. shape: of the parameter. m: its size."""
        return cls(tables["signs"].reshape(m, -1), shape)

    @property
    def size(self) -> int:
        return len(self.signs)

    @property
    def squared_scale(self) -> Fraction:
        return Fraction(1, self.size)

    def tables(self) -> dict[str, Array]:
        return {"signs": self.signs}

    def integers(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]:
        return product(flattened(x, self.of), self.signs)

    def variance_factor(self) -> float:
        return 2 / self.size

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """The variance of each inner product, estimated from sketched numbers. pairs: their norms and products."""
        return half_bound(self.variance_factor(), pairs)
