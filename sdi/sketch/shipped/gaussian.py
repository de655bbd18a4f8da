"""GaussianSketch: a dense projection with independent normal entries, the yardstick of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod, sqrt
from typing import ClassVar

import numpy as np
from jaxtyping import Float, Shaped

from sdi.sketch.estimate_variance import Pairs, half_bound
from sdi.sketch.hashing import normals
from sdi.sketch.protocol import LinearSketch, Shape, check_m, check_shape
from sdi.sketch.shipped.dense_projection import check_dense, product
from sdi.sketch.shipped.scaled_integers import as_floats, flattened, read_only

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class GaussianSketch(LinearSketch):
    """S = G / sqrt(m), with m x D independent standard normal numbers G.

    <S x, S y> is the mean of m independent (g.x)(g.y), with E = x.y and, by Isserlis' theorem,
    Var = |x|^2 |y|^2 + (x.y)^2. So the variance is (|x|^2 |y|^2 + (x.y)^2) / m, at most 2 / m, attained at x = y.
    table: G. of: the shape of the parameter, of D entries.

    >>> GaussianSketch.draw((8, 6), 16, seed=0, name="w").apply(np.ones((8, 6))).shape
    (16,)
    """

    table: Float[Array, "m numbers"]
    of: Shape
    kind: ClassVar[str] = "gaussian"

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", check_shape(self.of, "GaussianSketch"))
        if self.table.ndim != 2 or self.table.shape[1] != prod(self.of) or self.table.dtype.kind != "f":
            raise ValueError(f"table must hold floats, (m, {prod(self.of)}), got {self.table.dtype} {self.table.shape}")
        read_only(self, table=self.table)

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "") -> GaussianSketch:
        check_m(m)
        shape = check_shape(shape, "GaussianSketch")
        check_dense(m, shape, name, cls.kind)
        table = np.empty((m, prod(shape)), dtype=np.float32)
        for k in range(m):  # row by row: what a normal number is made from takes six times its own bytes
            table[k] = normals(prod(shape), seed, name, "gaussian", k)
        return cls(table, shape)

    @classmethod
    def of_tables(cls, shape: Shape, m: int, tables: Mapping[str, Array]) -> GaussianSketch:
        """The sketch whose `tables()` these are. shape: of the parameter. m: its size."""
        return cls(tables["table"].reshape(m, -1), shape)

    @property
    def shape(self) -> Shape:
        return self.of

    @property
    def size(self) -> int:
        return len(self.table)

    def tables(self) -> dict[str, Array]:
        return {"table": self.table}

    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]:
        return product(as_floats(flattened(self._check(x), self.of)), self.table) * (1 / sqrt(self.size))

    def variance_factor(self) -> float:
        return 2 / self.size

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """The variance of each inner product, estimated from sketched numbers. pairs: their norms and products."""
        return half_bound(self.variance_factor(), pairs)
