"""Sketches as data: linear maps from a parameter's gradient to at most m numbers.

    CountSketch   x in R^d           y[h(i)]            += s(i) x[i]
    TensorSketch  X in R^(d x d')    y[h(i) + h'(j) % m] += s(i) s'(j) X[i, j]
    Keep          any shape          y = X, flattened: for parameters with at most m entries

All three are frozen tables, so both backends can be handed the very same one. `apply` is the definition, an
explicit signed sum; the FFT form is what the backends may use instead. `dense` writes the map out as a matrix.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int, Int8, Shaped

from sdi.errors import SketchMismatch
from sdi.hashing import check_family, draw_buckets, draw_signs

Array = np.ndarray


class _Linear(ABC):
    """What every sketch can do, from its shape, its size and `apply`."""

    kind: ClassVar[str]

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]: ...

    @property
    @abstractmethod
    def size(self) -> int: ...

    @abstractmethod
    def tables(self) -> dict[str, Array]:
        """The randomness, by name: what `identity` hashes and JSON holds."""

    @abstractmethod
    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]: ...

    @property
    def identity(self) -> str:
        """A short digest: equal exactly when kind, shape, m and all tables are equal."""
        digest = hashlib.sha256(f"{self.kind}|{self.shape}|{self.size}".encode())
        for name, table in self.tables().items():
            digest.update(f"|{name}|".encode() + np.ascontiguousarray(table, dtype="<i8").tobytes())
        return digest.hexdigest()[:12]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Linear) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def dense(self) -> Int[Array, "m size"]:
        """The map as a matrix of 0 and +-1 on the flattened parameter."""
        basis = np.eye(prod(self.shape), dtype=np.int64).reshape(-1, *self.shape)
        return np.asarray(self.apply(basis).T)

    def to_json(self) -> dict[str, Any]:
        tables = {name: np.asarray(table).tolist() for name, table in self.tables().items()}
        return {"kind": self.kind, "shape": list(self.shape), "m": self.size, **tables}

    def _check(self, x: Array) -> Array:
        x = np.asarray(x)
        k = len(self.shape)
        if x.ndim < k or x.shape[x.ndim - k :] != self.shape:
            raise SketchMismatch(
                f"{type(self).__name__} is for arrays of shape (..., {', '.join(map(str, self.shape))}), got {x.shape}"
            )
        return x


def _scatter(x: Array, buckets: Int[Array, "d"], signs: Int8[Array, "d"], m: int) -> Array:
    """y[..., h(i)] += s(i) x[..., i], in the dtype of x: floats, integers or Fractions."""
    signed = x * signs
    y = np.zeros((*x.shape[:-1], m), dtype=signed.dtype)  # that of x, unless x has no signs
    np.add.at(y, (..., buckets), signed)  # type: ignore[arg-type]
    return y


@dataclass(frozen=True, eq=False)
class CountSketch(_Linear):
    """d numbers into m signed buckets.

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
        if not np.isin(s, (-1, 1)).all():
            raise ValueError(f"s must hold only -1 and +1, got {np.unique(s)[:5]}")
        for name, table, dtype in (("h", h, np.int64), ("s", s, np.int8)):
            table = table.astype(dtype)
            table.flags.writeable = False
            object.__setattr__(self, name, table)
        object.__setattr__(self, "m", int(self.m))

    @classmethod
    def draw(cls, d: int, m: int, *words: object, family: str = "table") -> CountSketch:
        check_m(m)
        check_family(family, m)
        return cls(h=draw_buckets(d, m, family, *words), s=draw_signs(d, m, family, *words), m=m)

    @property
    def shape(self) -> tuple[int]:
        return (self.h.size,)

    @property
    def size(self) -> int:
        return self.m

    def tables(self) -> dict[str, Array]:
        return {"h": self.h, "s": self.s}

    def apply(self, x: Shaped[Array, "... d"]) -> Shaped[Array, "... m"]:
        return _scatter(self._check(x), self.h, self.s, self.m)


@dataclass(frozen=True, eq=False)
class TensorSketch(_Linear):
    """A d x d' matrix into m signed buckets, through one CountSketch of its rows and one of its columns."""

    rows: CountSketch
    cols: CountSketch
    kind: ClassVar[str] = "tensor"

    def __post_init__(self) -> None:
        if self.rows.m != self.cols.m:
            raise SketchMismatch(f"rows and cols must have one m, got {self.rows.m} and {self.cols.m}")

    @classmethod
    def draw(cls, shape: tuple[int, int], m: int, *words: object, family: str = "table") -> TensorSketch:
        return cls(
            rows=CountSketch.draw(shape[0], m, *words, "rows", family=family),
            cols=CountSketch.draw(shape[1], m, *words, "cols", family=family),
        )

    @property
    def m(self) -> int:
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
        return _scatter(x.reshape(*x.shape[:-2], prod(self.shape)), self.H.ravel(), self.S.ravel(), self.m)

    def apply_outer(self, u: Shaped[Array, "... d"], v: Shaped[Array, "... d2"]) -> Shaped[Array, "... m"]:
        """The sketch of outer(u, v) without forming it: a circular convolution of two CountSketches, by FFT."""
        spectrum = np.fft.rfft(self.rows.apply(u)) * np.fft.rfft(self.cols.apply(v))
        return np.fft.irfft(spectrum, n=self.m)


@dataclass(frozen=True, eq=False)
class Keep(_Linear):
    """The parameter itself, flattened: costs no more than a sketch when it has at most m entries, and is exact."""

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

    def tables(self) -> dict[str, Array]:
        return {}

    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... m"]:
        x = self._check(x)
        return x.reshape(*x.shape[: x.ndim - len(self.shape)], self.size)


Sketch = CountSketch | TensorSketch | Keep


def check_m(m: int) -> None:
    if isinstance(m, bool) or not isinstance(m, (int, np.integer)):
        raise TypeError(f"m must be an integer, got {m!r}")
    if m < 1:
        raise ValueError(f"m must be at least 1, got {m}")


def sketch_from_json(spec: dict[str, Any]) -> Sketch:
    """The inverse of `to_json`.

    >>> s = TensorSketch.draw((3, 5), 4, "any words")
    >>> sketch_from_json(s.to_json()) == s
    True
    """
    kind, m = spec.get("kind"), spec.get("m")
    if kind == "keep":
        return Keep(tuple(int(k) for k in spec["shape"]))
    if kind == "count":
        return CountSketch(h=np.array(spec["h"]), s=np.array(spec["s"]), m=int(spec["m"]))
    if kind == "tensor":
        rows, cols = (
            CountSketch(h=np.array(spec[f"{side}.h"]), s=np.array(spec[f"{side}.s"]), m=int(spec["m"]))
            for side in ("rows", "cols")
        )
        return TensorSketch(rows=rows, cols=cols)
    raise ValueError(f"a sketch's kind must be 'count', 'tensor' or 'keep', got {kind!r} (m={m})")
