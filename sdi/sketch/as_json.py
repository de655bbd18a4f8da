"""Sketches in files: the library's own with their tables, a user's as a record that needs no code of theirs.

Opening a store must not run what the store names. So a class that does not ship comes back as a RecordedSketch, which
knows all that blocks, labels and error bars need, and refuses only to be applied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Shaped

from sdi.errors import SketchMismatch
from sdi.inputs.fingerprint import class_fingerprint
from sdi.sketch.load import SHIPPED, load_sketch, sketch_text
from sdi.sketch.protocol import LinearSketch, Shape, Sketch, identity_of, kind_of
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch

Array = np.ndarray
KINDS = ("keep", "count", *(name for name in SHIPPED if name != "exact"))


@dataclass(frozen=True, eq=False)
class RecordedSketch(LinearSketch):
    """What a file says of a sketch whose class is not the library's."""

    word: str
    of: Shape
    numbers: int
    recorded_identity: str
    factor: float
    text: str  # what the user named
    code: str  # a digest of the class, so that a run goes on only with the same one
    bytes_of_tables: int

    @classmethod
    def of_sketch(cls, sketch: Sketch) -> RecordedSketch:
        if isinstance(sketch, RecordedSketch):
            return sketch
        made, shape = type(sketch), tuple(int(k) for k in sketch.shape)
        facts = (identity_of(sketch), float(sketch.variance_factor()), sketch_text(made), class_fingerprint(made))
        return cls(kind_of(sketch), shape, int(sketch.size), *facts, int(sketch.nbytes))

    @classmethod
    def draw(cls, shape: Shape, m: int, *, seed: int, name: str) -> Sketch:
        raise TypeError("a RecordedSketch is read from a file, never drawn")

    @property
    def kind(self) -> str:  # type: ignore[override]
        return self.word

    @property
    def shape(self) -> Shape:
        return self.of

    @property
    def size(self) -> int:
        return self.numbers

    @property
    def nbytes(self) -> int:
        return self.bytes_of_tables

    @cached_property
    def identity(self) -> str:
        return self.recorded_identity

    def tables(self) -> dict[str, Array]:
        return {}

    def variance_factor(self) -> float:
        return self.factor

    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... size"]:
        raise SketchMismatch(
            f"this sketch was read from a file, which does not load its class {self.text!r}; draw it again with "
            f"SketchMap.draw(..., sketch=...), giving the class or its path"
        )

    def apply_outer(self, u: Array, v: Array) -> Array:
        return self.apply(u)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind, "shape": list(self.shape), "m": self.size, "identity": self.identity,
            "variance_factor": self.factor, "class": self.text, "code": self.code, "nbytes": self.nbytes,
        }  # fmt: skip


def is_own(sketch: Sketch) -> bool:
    """Whether the library made it, so that a file may hold its tables."""
    return type(sketch).__module__.startswith("sdi.sketch.") and not isinstance(sketch, RecordedSketch)


def sketch_to_json(sketch: Sketch) -> dict[str, Any]:
    """Tables for the library's own, a record for others'."""
    own: LinearSketch = (
        sketch if isinstance(sketch, LinearSketch) and is_own(sketch) else RecordedSketch.of_sketch(sketch)
    )
    return own.to_json()


def sketch_from_json(spec: dict[str, Any]) -> Sketch:
    """The inverse of `sketch_to_json`, as far as no user's code is needed.

    >>> s = TensorSketch.draw((3, 5), 4, name="any")
    >>> sketch_from_json(sketch_to_json(s)) == s
    True
    """
    kind, m = spec.get("kind"), spec.get("m")
    shape = tuple(int(k) for k in spec.get("shape", ()))
    if "identity" in spec:
        facts = (spec[key] for key in ("identity", "variance_factor", "class", "code", "nbytes"))
        return RecordedSketch(str(kind), shape, int(spec["m"]), *facts)
    if kind == "keep":
        return Keep(shape)
    if kind == "count":
        return CountSketch(h=np.array(spec["h"]), s=np.array(spec["s"]), m=int(spec["m"]))
    if kind == "tensor":
        rows, cols = (
            CountSketch(h=np.array(spec[f"{side}.h"]), s=np.array(spec[f"{side}.s"]), m=int(spec["m"]))
            for side in ("rows", "cols")
        )
        return TensorSketch(rows=rows, cols=cols)
    if kind in KINDS:
        tables = {k: np.array(table) for k, table in spec.items() if k not in ("kind", "shape", "m")}
        made: Any = load_sketch(kind)
        return made.of_tables(shape, int(spec["m"]), tables)
    raise ValueError(f"a sketch's kind must be one of {KINDS}, got {kind!r} (m={m})")
