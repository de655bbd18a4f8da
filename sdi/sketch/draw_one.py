"""draw_one: the sketch of one parameter: `Keep` if it has at most m entries, else drawn from its class and checked."""

from __future__ import annotations

from math import prod
from typing import Any

from sdi.errors import SketchMismatch
from sdi.sketch.load import NEEDED, load_sketch, sketch_text
from sdi.sketch.protocol import Shape, Sketch, matrix_shape
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch


def draw_one(spec: str | type, name: str, shape: Shape, m: int, seed: int, family: str) -> Sketch:
    """The sketch of one parameter; more than two axes are taken as a matrix. spec: a name, a path or a class."""
    if prod(shape) < 1:
        raise ValueError(f"parameter {name!r} must have at least one entry, got shape {shape}")
    cls: Any = load_sketch(spec)
    if cls is Keep or (prod(shape) <= m and getattr(cls, "keeps_small", True)):
        return Keep(shape)
    shape = shape if len(shape) == 1 else matrix_shape(shape) if shape else (1,)
    if cls in (CountSketch, TensorSketch):
        return cls.draw(shape, m, seed=seed, name=name, family=family)
    if family != "table":
        text = sketch_text(spec)
        raise ValueError(f"family must be 'table' where sketch is not 'tensor', got {family!r} and sketch={text!r}")
    made = cls.draw(shape, m, seed=seed, name=name)
    text = f"sketch {sketch_text(spec)!r}, drawn for {name!r} with shape {shape} and m={m}"
    if not isinstance(made, Sketch):
        lacking = [k for k in NEEDED if not hasattr(made, k)]
        raise TypeError(f"{text}, lacks {', '.join(lacking)}; derive it from sdi.LinearSketch, which fills in most")
    isometry = made.size == prod(shape) and made.variance_factor() == 0  # as Keep: it gives all there is, exactly
    if tuple(made.shape) != shape or not (isometry or 1 <= made.size <= m):
        raise SketchMismatch(f"{text}, has shape {made.shape} and size {made.size}; it must keep the shape and 1 to m")
    return made
