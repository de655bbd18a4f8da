"""Sketches as data: linear maps from a parameter's gradient to at most m numbers.

    CountSketch   x in R^d           y[h(i)]            += s(i) x[i]
    TensorSketch  X in R^(d x d')    y[h(i) + h'(j) % m] += s(i) s'(j) X[i, j]
    Keep          any shape          y = X, flattened: for parameters with at most m entries

All three are frozen tables, so both backends can be handed the very same one. `apply` is the definition, an
explicit signed sum; the FFT form is what the backends may use instead. `dense` writes the map out as a matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int, Int8, Shaped

from sdi.errors import SketchMismatch
from sdi.sketch.estimate_variance import Pairs, between, half_bound, over_frequencies
from sdi.sketch.hashing import check_family, draw_buckets, draw_signs
from sdi.sketch.protocol import Draws, LinearSketch, Shape, check_m, check_shape
from sdi.sketch.variance_factor import coincidence_factor, count_sketch_factor, tensor_sketch_factor

Array = np.ndarray
LONG = 1 << 11  # entries of an array from which on it is summed by itself, and not all arrays at once


def scatter(x: Array, buckets: Int[Array, "d"], signs: Int8[Array, "d"], m: int) -> Array:
    """y[..., h(i)] += s(i) x[..., i], in the dtype of x: floats or Fractions; integers are summed in 64 bits."""
    signed = (x.astype(np.int64) if x.dtype.kind in "iub" else x) * signs
    if signed.dtype == np.float64 and signed.size:  # the same sums in the same order as below, several times faster
        rows = signed.reshape(-1, len(buckets))
        if len(buckets) > LONG:
            return np.array([np.bincount(buckets, row, m) for row in rows]).reshape(*x.shape[:-1], m)
        places = buckets + m * np.arange(len(rows))[:, None]
        return np.bincount(places.ravel(), rows.ravel(), m * len(rows)).reshape(*x.shape[:-1], m)
    y = np.zeros((*x.shape[:-1], m), dtype=signed.dtype)  # that of x, unless x has no signs
    np.add.at(y, (..., buckets), signed)  # type: ignore[arg-type]
    return y


@dataclass(frozen=True, eq=False)
class CountSketch(LinearSketch):
    """d numbers into m signed buckets: y[h[i]] += s[i] x[i].

    h: the bucket of each entry. s: its sign. m: the number of buckets.

    >>> CountSketch(h=np.array([0, 1, 0]), s=np.array([1, -1, -1]), m=2).apply(np.array([5.0, 7.0, 1.0]))
    array([ 4., -7.])
    """

    h: Int[Array, "d"]
    s: Int8[Array, "d"]
    m: int
    kind: ClassVar[str] = "count"

    def __post_init__(self) -> None:
        h, s = np.array(self.h), np.array(self.s)
        check_m(self.m)
        if h.ndim != 1 or h.shape != s.shape or h.size == 0:
            raise ValueError(f"h and s must be vectors of one length of at least 1, got shapes {h.shape} and {s.shape}")
        if h.dtype.kind not in "iu" or h.min() < 0 or h.max() >= self.m:
            raise ValueError(
                f"h must hold integers from 0 to m - 1 = {self.m - 1}, got {h.dtype} in [{h.min()}, {h.max()}]"
            )
        if not ((s == 1) | (s == -1)).all():
            raise ValueError(f"s must hold only -1 and +1, got {np.unique(s)[:5]}")
        for name, table, dtype in (("h", h, np.int64), ("s", s, np.int8)):
            table = table.astype(dtype)
            table.flags.writeable = False
            object.__setattr__(self, name, table)
        object.__setattr__(self, "m", int(self.m))

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "", family: str = "table") -> CountSketch:
        shape = check_shape(shape, "CountSketch")
        if len(shape) > 1:
            raise ValueError(f"shape must be (d,) for CountSketch, got {shape}; use TensorSketch, or sketch='sparse-1'")
        return cls._of_words(shape[0], m, family, seed, name)

    @classmethod
    def _of_words(cls, d: int, m: int, family: str, *words: object) -> CountSketch:
        check_m(m)
        check_family(family, m)
        return cls(h=draw_buckets(d, m, family, *words), s=draw_signs(d, m, family, *words), m=m)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """Every table of buckets and signs, all equally likely. shape: of the parameter. m: numbers."""
        (d,) = check_shape(shape, "CountSketch")
        one = Fraction(1, (2 * m) ** d)
        for h, s in product(product(range(m), repeat=d), product((-1, 1), repeat=d)):
            yield one, cls(h=np.array(h), s=np.array(s), m=m)

    @property
    def shape(self) -> tuple[int]:
        return (self.h.size,)

    @property
    def size(self) -> int:
        return self.m

    def tables(self) -> dict[str, Array]:
        return {"h": self.h, "s": self.s}

    def apply(self, x: Shaped[Array, "... d"]) -> Shaped[Array, "... m"]:
        return scatter(self._check(x), self.h, self.s, self.m)

    def variance_factor(self) -> float:
        """2 / m: see `sdi.sketch.bounds`."""
        return count_sketch_factor(self.m)

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """The variance of each inner product, estimated from sketched numbers. pairs: their norms and products."""
        return half_bound(self.variance_factor(), pairs)


@dataclass(frozen=True, eq=False)
class TensorSketch(LinearSketch):
    """A d x d' matrix into m signed buckets, through CountSketches `rows` of its rows and `cols` of its columns."""

    rows: CountSketch
    cols: CountSketch
    kind: ClassVar[str] = "tensor"

    def __post_init__(self) -> None:
        if self.rows.m != self.cols.m:
            raise SketchMismatch(f"rows and cols must have one m, got {self.rows.m} and {self.cols.m}")

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int = 0, name: str = "", family: str = "table") -> Any:
        """Draw a sketch from its arguments alone; for a vector, a CountSketch, which is the same with one column.

        shape: (d,) or (d_out, d_in). m: the number of buckets. seed, name: the run's seed and the parameter's name.
        family: the hash family, "table" or "polynomial".
        """
        shape = check_shape(shape, "TensorSketch")
        if len(shape) == 1:
            return CountSketch.draw(shape, m, seed=seed, name=name, family=family)
        rows, cols = (
            CountSketch._of_words(d, m, family, seed, name, side)
            for d, side in zip(shape, ("rows", "cols"), strict=True)
        )
        return cls(rows=rows, cols=cols)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """Every pair of a CountSketch of the rows and one of the columns. shape: of the parameter. m: numbers."""
        shape = check_shape(shape, "TensorSketch")
        if len(shape) == 1:
            yield from CountSketch.enumerate_all(shape, m)
            return
        for p, rows in CountSketch.enumerate_all(shape[:1], m):
            for q, cols in CountSketch.enumerate_all(shape[1:], m):
                assert isinstance(rows, CountSketch)
                assert isinstance(cols, CountSketch)
                yield p * q, cls(rows=rows, cols=cols)

    @property
    def m(self) -> int:
        """The number of buckets."""
        return self.rows.m

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape[0], self.cols.shape[0]

    @property
    def size(self) -> int:
        return self.m

    @property
    def H(self) -> Int[Array, "d d2"]:
        """The bucket of every entry."""
        return np.asarray((self.rows.h[:, None] + self.cols.h[None, :]) % self.m)

    @property
    def S(self) -> Int8[Array, "d d2"]:
        """The sign of every entry."""
        return np.asarray(self.rows.s[:, None] * self.cols.s[None, :])

    def tables(self) -> dict[str, Array]:
        return {f"{side}.{k}": t for side in ("rows", "cols") for k, t in getattr(self, side).tables().items()}

    def apply(self, x: Shaped[Array, "... d d2"]) -> Shaped[Array, "... m"]:
        x = self._check(x)
        return scatter(x.reshape(*x.shape[:-2], prod(self.shape)), self.H.ravel(), self.S.ravel(), self.m)

    def apply_outer(self, u: Shaped[Array, "... T d"], v: Shaped[Array, "... T d2"]) -> Shaped[Array, "... m"]:
        """The sketch of the sum over T of outer(u, v), without forming it: a circular convolution of two CountSketches,
        of u (..., T, d) and of v (..., T, d'), by FFT."""
        u, v = self._check_pair(u, v)
        spectrum = np.fft.rfft(self.rows.apply(u)) * np.fft.rfft(self.cols.apply(v))
        return np.fft.irfft(spectrum.sum(axis=-2), n=self.m)

    def variance_factor(self) -> float:
        """2c/m^2 + 6/m, with c = 2 for even m and 1 for odd: see `sdi.sketch.bounds`."""
        return tensor_sketch_factor(self.m)

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """`over_frequencies`, plus the bound on the part in 1 / m^2, for `pairs` of sketched vectors."""
        rest = half_bound(coincidence_factor(self.m), pairs)
        return between(self.variance_factor(), pairs, over_frequencies(pairs) + rest)


@dataclass(frozen=True, eq=False)
class Keep(LinearSketch):
    """The parameter itself, flattened, without error: used for parameters with at most m entries. of: its shape."""

    of: tuple[int, ...]
    kind: ClassVar[str] = "keep"

    def __post_init__(self) -> None:
        object.__setattr__(self, "of", tuple(int(k) for k in self.of))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of

    @property
    def size(self) -> int:
        return prod(self.of)

    @classmethod
    def draw(cls, shape: Shape, m: int = 0, *, seed: int = 0, name: str = "") -> Keep:
        """A Keep of this shape. The other arguments (m, seed, name) make no difference."""
        return cls(shape)

    @classmethod
    def enumerate_all(cls, shape: Shape, m: int) -> Draws:
        """The one Keep there is. shape: of the parameter. m: numbers."""
        yield Fraction(1), cls(shape)

    def tables(self) -> dict[str, Array]:
        return {}

    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]:
        x = self._check(x)
        return x.reshape(*x.shape[: x.ndim - len(self.shape)], self.size)

    def variance_factor(self) -> float:
        return 0.0

    def variance_estimate(self, pairs: Pairs) -> Shaped[Array, "n q"]:
        """Zeros: there is no error. pairs: of any examples."""
        return np.zeros_like(pairs.norms)
