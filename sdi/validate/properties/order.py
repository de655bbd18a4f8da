"""In a map of several parameters, a sketch does not depend on the others, nor on their order; and the map is data."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from sdi.sketch.sketch_map import SketchMap
from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.sketch_under_test import Shape, Subject, digest
from sdi.validate.subprocess_check import can_be_elsewhere, elsewhere


@sketch_property(
    "order",
    says="a parameter's sketch does not depend on the other parameters or on their order, and its map survives JSON",
    remedy="draw from (seed, name) alone: a generator that is shared by several draws remembers their order",
    needs=("repeatable", "layout"),
)
def order(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), "three parameters in two orders, and one alone")


def names_and_shapes(subject: Subject) -> dict[str, Shape]:
    return {"core.weight": subject.shape, "core.bias": subject.shapes[-1], "inject.weight": subject.shape}


def reversed_digest(subject: Subject) -> str:
    """Of the map drawn from the last parameter to the first, its sketches in the order of their names."""
    made = _map(subject, dict(reversed(names_and_shapes(subject).items())))
    return hashlib.sha256(repr([digest(made.sketches[name]) for name in sorted(made.sketches)]).encode()).hexdigest()


def _map(subject: Subject, shapes: dict[str, Shape]) -> SketchMap:
    return SketchMap.draw(shapes, subject.m, subject.seed, sketch=subject.sketch)


def _tries(subject: Subject) -> Iterator[Try]:
    shapes = names_and_shapes(subject)
    backwards = dict(reversed(shapes.items()))
    maps = {"in one order": _map(subject, shapes), "in the other": _map(subject, backwards)}
    rng = subject.rng(7)
    arrays = {name: rng.standard_normal((2, *shape)) for name, shape in shapes.items()}
    values = {how: _parts(made, arrays) for how, made in maps.items()}
    for name, shape in shapes.items():
        alone = _map(subject, {name: shape})
        one = digest(alone.sketches[name])
        for how, made in maps.items():
            case = f"parameters {list(made.shapes)}, {name!r}"
            yield (None if digest(made.sketches[name]) == one else f"its sketch is another one {how} than alone"), case
            same = np.array_equal(values[how][name], alone.apply({name: arrays[name]}))
            yield (None if same else f"its numbers are others {how} than alone"), case
    if can_be_elsewhere(subject):
        there = elsewhere(reversed_digest, subject)
        wrong = f"drawn in another order in a new process, other sketches: {there[:80]}"
        yield (None if there == reversed_digest(subject) else wrong), f"parameters {list(backwards)}"
    whole = maps["in one order"]
    back = SketchMap.from_json(whole.to_json())
    same = (back.blocks, back.identity, back.label) == (whole.blocks, whole.identity, whole.label)
    yield (None if same else "the map written as JSON and read again is another one"), f"parameters {list(shapes)}"


def _parts(made: SketchMap, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    values = made.apply(arrays)
    return {block.name: values[..., block.start : block.stop] for block in made.blocks}
