"""SparseSketch: sparse Johnson-Lindenstrauss, s signed non-zeros in every column."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from itertools import combinations
from itertools import product as every
from math import comb, prod
from typing import ClassVar

import numpy as np
from jaxtyping import Int, Int8, Shaped

from sdi.arguments import at_least_one
from sdi.sketch.estimate_variance import Pairs, half_bound
from sdi.sketch.hashing import distinct_columns, sign_bits
from sdi.sketch.protocol import Draws, Shape, check_m, check_shape
from sdi.sketch.shipped.count_and_tensor import scatter
from sdi.sketch.shipped.dense_projection import MOST_BYTES
from sdi.sketch.shipped.scaled_integers import ScaledIntegers, check_signs, flattened, read_only

Array = np.ndarray
BYTES_EACH = 12  # of a non-zero on a device: its row and its sign


@dataclass(frozen=True, eq=False)
class SparseSketch(ScaledIntegers):
    """Each entry of the parameter goes to s distinct buckets out of m, with a sign of its own in each, over sqrt(s).

    <S x, S y> = x.y + sum over i < j of (x_i y_j + x_j y_i) Z_ij, where Z_ij is the product of columns i and j. Its
    signs make the Z_ij uncorrelated with mean 0, and E Z_ij^2 = m (s/m)^2 / s^2 = 1 / m, whatever s is. So the
    variance is (|x|^2 |y|^2 + (x.y)^2 - 2 sum x_i^2 y_i^2) / m, at most 2 / m, as CountSketch's, which is s = 1; a
    larger s makes rare large errors rarer, and costs s times as much.
    rows: the s buckets of each entry. signs: its signs there. m: buckets. of: the shape of the parameter.
    """

    rows: Int[Array, "numbers s"]
    signs: Int8[Array, "numbers s"]
    m: int
    of: Shape
    kind: ClassVar[str] = "sparse"
    nonzeros: ClassVar[int] = 4  # per column, or m if that is less

    def __post_init__(self) -> None:
        check_m(self.m)
        object.__setattr__(self, "m", int(self.m))
        object.__setattr__(self, "of", check_shape(self.of, "SparseSketch"))
        rows, signs = np.asarray(self.rows), np.asarray(self.signs)
        if rows.ndim != 2 or rows.shape != signs.shape or len(rows) != prod(self.of):
            raise ValueError(f"rows and signs must be ({prod(self.of)}, s), got {rows.shape} and {signs.shape}")
        if rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= self.m:
            raise ValueError(f"rows must hold integers from 0 to m - 1 = {self.m - 1}, got {rows.min()}..{rows.max()}")
        if (np.diff(np.sort(rows, axis=1), axis=1) == 0).any():
            raise ValueError("the rows of one column must be distinct")
        read_only(self, rows=rows.astype(np.int32), signs=check_signs("signs", signs))

    @classmethod
    def with_nonzeros(cls, s: int) -> type[SparseSketch]:
        """The class that draws s non-zeros per column; by name "sparse-4" and so on."""
        at_least_one("s", s)
        return _with_nonzeros(s)

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "") -> SparseSketch:
        check_m(m)
        shape = check_shape(shape, "SparseSketch")
        s, d = min(cls.nonzeros, m), prod(shape)
        if (size := BYTES_EACH * s * d) > MOST_BYTES:
            raise ValueError(
                f"sketch 'sparse-{s}' of {name!r} with shape {shape} needs tables of {size:,} bytes, over "
                f"{MOST_BYTES:,}; use another sketch for it, such as 'tensor', whose tables grow with the sides only"
            )
        rows = distinct_columns(d, s, m, seed, name, "sparse", "rows")
        return SparseSketch(rows, sign_bits(d * s, seed, name, "sparse", "signs").reshape(d, s), m, shape)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """Every choice of rows and signs for every column. shape: of the parameter. m: numbers."""
        s, d = min(cls.nonzeros, m), prod(shape)
        columns = list(_every_column(s, m))
        one = Fraction(1, (comb(m, s) * 2**s) ** d)
        for chosen in every(columns, repeat=d):
            rows, signs = zip(*chosen, strict=True)
            yield one, SparseSketch(np.array(rows), np.array(signs), m, shape)

    @classmethod
    def of_tables(cls, shape: Shape, m: int, tables: Mapping[str, Array]) -> SparseSketch:
        """The sketch whose `tables()` these are. shape: of the parameter. m: its size."""
        return SparseSketch(tables["rows"], tables["signs"], m, shape)

    @property
    def size(self) -> int:
        return self.m

    @property
    def squared_scale(self) -> Fraction:
        return Fraction(1, self.rows.shape[1])

    def tables(self) -> dict[str, Array]:
        return {"rows": self.rows, "signs": self.signs}

    def integers(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]:
        x = flattened(x, self.of)
        parts = (scatter(x, rows, signs, self.m) for rows, signs in zip(self.rows.T, self.signs.T, strict=True))
        return np.asarray(sum(parts))

    def variance_factor(self) -> float:
        return 2 / self.m

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """The variance of each inner product, estimated from sketched numbers. pairs: their norms and products."""
        return half_bound(self.variance_factor(), pairs)


@cache
def _with_nonzeros(s: int) -> type[SparseSketch]:
    if s == SparseSketch.nonzeros:
        return SparseSketch
    return type(f"SparseSketch{s}", (SparseSketch,), {"nonzeros": s, "kind": "sparse", "spec": f"sparse-{s}"})


def _every_column(s: int, m: int) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
    for rows in combinations(range(m), s):
        for signs in every((-1, 1), repeat=s):
            yield rows, signs
