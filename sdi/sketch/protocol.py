"""Sketch: what a class must have to be used as a sketch, and LinearSketch, a base that fills in most of it.

A sketch is a linear map from one parameter's gradient to at most m numbers, drawn from (seed, parameter name) and held
as data. A newcomer writes a class with `draw`, `shape`, `size`, `tables`, `apply` and `variance_factor` on top of
LinearSketch, and names it wherever a sketch is asked for; `docs/new-sketch.md` shows how, `sdi validate` checks it.

Used where a class has them, and not asked for:

    keeps_small = False              parameters with at most m entries are sketched, too, instead of kept whole
    enumerate_all(shape, m)          every draw with its probability: exact answers at tiny sizes
    to_torch(device, dtype)          a twin on a device; without one, gradients go through NumPy, which is slow
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Shaped

from sdi.arguments import at_least_one, whole
from sdi.errors import SketchMismatch

Array = np.ndarray
Shape = tuple[int, ...]

CHUNK_BYTES = 1 << 26  # gradients formed at a time by LinearSketch.apply_outer
HASHED = 1 << 20  # numbers of a table hashed at a time


@runtime_checkable
class Sketch(Protocol):
    """What the library asks of a sketch of one vector (d,) or matrix (d_out, d_in)."""

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int, name: str) -> Sketch:
        """Draw a sketch: a pure function of its arguments.

        shape: of the parameter, a vector's (d,) or a matrix's (d_out, d_in). m: the most numbers it may give.
        seed, name: the run's seed and the parameter's name; randomness should come from
            `sdi.sketch.bits(count, seed, name)`.
        """

    @property
    def shape(self) -> Shape:
        """The shape of the parameter."""

    @property
    def size(self) -> int:
        """How many numbers it gives: at most m, or as many as the parameter has if it keeps every product."""

    @property
    def nbytes(self) -> int:
        """The bytes of its tables."""

    def tables(self) -> Mapping[str, Array]:
        """Its randomness as arrays, by name."""

    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... size"]:
        """The sketch of arrays x of shape (..., *shape), by definition; linear."""

    def apply_outer(self, u: Shaped[Array, "... T d_out"], v: Shaped[Array, "... T d_in"]) -> Shaped[Array, "... size"]:
        """The sketch of the sum over T of outer(u, v), for u (..., T, d_out) and v (..., T, d_in)."""

    def variance_factor(self) -> float:
        """A claim: Var <S x, S y> <= factor * |x|^2 |y|^2 for all x and y. It depends on shape and m only."""


class LinearSketch(ABC):
    """A base class for sketches: derives the rest of `Sketch` from `draw`, `shape`, `size`, `tables` and `apply`."""

    kind: ClassVar[str]  # in identities and files; the class's name, if it says nothing else

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "kind" not in cls.__dict__:
            cls.kind = cls.__name__

    @classmethod
    @abstractmethod
    def draw(cls, shape: Shape, m: int, *, seed: int, name: str) -> Sketch:
        """Draw a sketch: a pure function of its arguments.

        shape: of the parameter, (d,) or (d_out, d_in). m: the most numbers it may give.
        seed, name: the run's seed and the parameter's name. Some classes also take
        family: the hash family, "table" or "polynomial".
        """

    @property
    @abstractmethod
    def shape(self) -> Shape:
        """The shape of the parameter."""

    @property
    @abstractmethod
    def size(self) -> int:
        """How many numbers it gives: at most m."""

    @abstractmethod
    def tables(self) -> Mapping[str, Array]:
        """The randomness as arrays, by name: what `identity` hashes and JSON holds."""

    @abstractmethod
    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... size"]:
        """The sketch of arrays x of shape (..., *shape), by definition; linear."""

    @abstractmethod
    def variance_factor(self) -> float:
        """A claim: Var <S x, S y> <= factor * |x|^2 |y|^2 for all x and y."""

    def apply_outer(self, u: Shaped[Array, "... T d_out"], v: Shaped[Array, "... T d_in"]) -> Shaped[Array, "... size"]:
        """The sketch of the sum over T of outer(u, v), for u (..., T, d_out) and v (..., T, d_in).

        The outer products are formed, for as many examples at a time as CHUNK_BYTES hold.
        """
        u, v = self._check_pair(u, v)
        lead = u.shape[:-2]
        u, v = (side.reshape(prod(lead), *side.shape[-2:]) for side in (u, v))
        rows = max(1, CHUNK_BYTES // (u.itemsize * prod(self.shape)))
        parts = [self._apply_sum(u[i : i + rows], v[i : i + rows]) for i in range(0, max(len(u), 1), rows)]
        return np.concatenate(parts).reshape(*lead, self.size)

    def _apply_sum(self, u: Shaped[Array, "n T d_out"], v: Shaped[Array, "n T d_in"]) -> Shaped[Array, "n size"]:
        return self.apply((u.swapaxes(-1, -2) @ v).reshape(len(u), *self.shape))

    @property
    def nbytes(self) -> int:
        """The bytes of its tables."""
        return sum(np.asarray(table).nbytes for table in self.tables().values())

    @cached_property
    def identity(self) -> str:
        """A short digest: equal exactly when kind, shape, size and all tables are equal."""
        return identity_of(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LinearSketch) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def dense(self) -> Shaped[Array, "size numbers"]:
        """The map as a matrix on the flattened parameter."""
        basis = np.eye(prod(self.shape), dtype=np.int64).reshape(-1, *self.shape)
        return np.asarray(self.apply(basis).T)

    def to_json(self) -> dict[str, Any]:
        """Kind, shape, size and tables, as plain values."""
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

    def _check_pair(self, u: Array, v: Array) -> tuple[Array, Array]:
        u, v = np.asarray(u), np.asarray(v)
        d_out, d_in = matrix_shape(self.shape)
        good = u.ndim >= 2 and u.shape[:-1] == v.shape[:-1] and (u.shape[-1], v.shape[-1]) == (d_out, d_in)
        if not good:
            raise SketchMismatch(
                f"{type(self).__name__} is for pairs of shapes (..., T, {d_out}) and (..., T, {d_in}), "
                f"got {u.shape} and {v.shape}"
            )
        return u, v


def matrix_shape(shape: Shape) -> tuple[int, int]:
    """The matrix a parameter is taken for: (first axis, the rest); a vector is one column.

    >>> matrix_shape((3, 2, 5)), matrix_shape((4,))
    ((3, 10), (4, 1))
    """
    return (shape[0], prod(shape[1:])) if shape else (1, 1)


def kind_of(sketch: Sketch) -> str:
    """The name of a sketch's class in identities and files."""
    return str(getattr(sketch, "kind", type(sketch).__name__))


def identity_of(sketch: Sketch) -> str:
    """A short digest of kind, shape, size and tables, by value: an int8 and an int64 that are equal count as equal."""
    digest = hashlib.sha256(f"{kind_of(sketch)}|{tuple(sketch.shape)}|{sketch.size}".encode())
    for name, table in sketch.tables().items():
        table = np.asarray(table)
        whole = table.dtype.kind in "iub"
        head = "" if whole and table.ndim == 1 else f"{table.dtype.kind}{table.shape}|"
        wide = "<i8" if whole else "<c16" if table.dtype.kind == "c" else "<f8"
        digest.update(f"|{name}|{head}".encode())
        flat = table.reshape(-1)
        for i in range(0, flat.size, HASHED):  # in parts: widened at once, a large table would not fit
            digest.update(np.ascontiguousarray(flat[i : i + HASHED], dtype=wide).tobytes())
    return digest.hexdigest()[:12]


def check_m(m: int) -> None:
    at_least_one("m", whole("m", m))


def check_shape(shape: Any, of: str) -> Shape:
    """A vector's or a matrix's shape, as a tuple of integers."""
    good = isinstance(shape, (tuple, list)) and len(shape) in (1, 2)
    if not good or any(isinstance(k, bool) or not isinstance(k, (int, np.integer)) or k < 1 for k in shape):
        raise ValueError(f"shape must be (d,) or (d_out, d_in) with sizes of at least 1 for {of}, got {shape!r}")
    return tuple(int(k) for k in shape)


Draws = Iterator[tuple[Fraction, Sketch]]  # (probability, sketch): what enumerate_all gives
