"""Sketched steps sum to the sketched gradient, since a sketch is linear: sum_t S(phi_t) = S(sum_t phi_t) = S(g).

It holds for every sketch, random or not, as long as all steps and the gradient use one, and for each example by
itself; that another example's steps do not do is among the errata.

Decided exactly, in integers: for CountSketch and TensorSketch alone and a SketchMap of them (both families, m even
and odd, a convolution's kernel and a kept parameter among the shapes), against S written out as a matrix from h and
s. And in float64 for the reference's step gradients against its sketched gradient, to 1e-13 of what is summed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, product
from math import prod

import numpy as np

from sdi.backends import room
from sdi.sketch.protocol import Sketch
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.sketch_map import SketchMap

from ..machinery.looped_models import Array, Case, cases, step_gradients
from ..machinery.statement import Verdict, statement

Phi = dict[str, Array]  # by parameter: (n, tau, *shape)
Sketched = Callable[[SketchMap, Phi], Array]  # (n, tau, D)
SHAPES = {"W": (5, 7), "b": (40,), "kernel": (3, 4, 5), "kept": (2, 2)}


def _steps(phi: Phi) -> Iterator[Phi]:
    for t in range(next(iter(phi.values())).shape[1]):
        yield {name: array[:, t] for name, array in phi.items()}


def _redrawn(sketch: SketchMap, step: int) -> SketchMap:
    def draw(name: str, s: Sketch) -> Sketch:
        if isinstance(s, CountSketch):
            return CountSketch.draw(s.shape, s.m, seed=step, name=f"redrawn {name}")
        return TensorSketch.draw(s.shape, s.m, seed=step, name=f"redrawn {name}") if isinstance(s, TensorSketch) else s

    return SketchMap({name: draw(name, s) for name, s in sketch.sketches.items()}, sketch.shapes)


def _a_new_sketch_per_step(sketch: SketchMap, phi: Phi) -> Array:
    return np.stack([_redrawn(sketch, t).apply(x) for t, x in enumerate(_steps(phi))], axis=1)


def _without_signs(sketch: Sketch) -> Sketch:
    if isinstance(sketch, CountSketch):
        return replace(sketch, s=np.abs(sketch.s))
    if isinstance(sketch, TensorSketch):
        return TensorSketch(*(replace(side, s=np.abs(side.s)) for side in (sketch.rows, sketch.cols)))
    return sketch


def _first_step_without_signs(sketch: SketchMap, phi: Phi) -> Array:
    bare = SketchMap({name: _without_signs(s) for name, s in sketch.sketches.items()}, sketch.shapes)
    return np.stack([(sketch if t else bare).apply(x) for t, x in enumerate(_steps(phi))], axis=1)


def _signs_of_buckets(sketch: SketchMap, phi: Phi) -> Array:
    return np.sign(sketch.apply(phi))


def _matrix(sketch: Sketch) -> Array:
    """The sketch as a matrix on the flattened parameter, from h and s alone."""
    if isinstance(sketch, TensorSketch):
        rows, cols = sketch.rows, sketch.cols
        bucket = (rows.h[:, None] + cols.h).ravel() % sketch.m
        sign = (rows.s[:, None] * cols.s).ravel()
    elif isinstance(sketch, CountSketch):
        bucket, sign = sketch.h, sketch.s
    else:
        return np.eye(sketch.size, dtype=np.int64)
    return np.where(np.arange(sketch.size)[:, None] == bucket, sign, 0).astype(np.int64)


def _sketched_gradient(sketch: SketchMap, phi: Phi) -> Array:
    g = {name: phi[name].sum(axis=1).reshape(-1, prod(shape)) for name, shape in sketch.shapes.items()}
    return np.concatenate([g[name] @ _matrix(s).T for name, s in sketch.sketches.items()], axis=-1)


def _sketches(thorough: bool) -> Iterator[SketchMap]:
    for m, seed in product((4, 7, 16, *((1, 2, 3, 32, 33) if thorough else ())), (0, 1)):
        for family in ("table",) if m & (m - 1) or m == 1 else ("table", "polynomial"):
            yield SketchMap.draw({"b": (40,)}, m, seed, family)
            yield SketchMap.draw({"W": (5, 7)}, m, seed, family)
            yield SketchMap.draw(SHAPES, m, seed, family)


def _exact(claim: Sketched, thorough: bool) -> Iterator[tuple[bool, str]]:
    rng = np.random.default_rng(0)
    for sketch in _sketches(thorough):
        phi = {name: rng.integers(-9, 10, (2, 4, *shape)) for name, shape in sketch.shapes.items()}
        same = np.array_equal(claim(sketch, phi).sum(axis=1), _sketched_gradient(sketch, phi))
        yield (
            same,
            f"{list(sketch.shapes)}, sketch {sketch.label}: the sketched steps do not sum to the sketched gradient",
        )


def _floats(claim: Sketched, case: Case) -> Iterator[tuple[bool, str]]:
    reference, loss = room("reference"), room("reference").token_cross_entropy
    phi = step_gradients(case)
    sketch = SketchMap.draw({name: x.shape[2:] for name, x in phi.items()}, m=11)
    whole = reference.featurize(
        case.model, loss, case.batch, loop=case.config.loop(), sketch=sketch, steps=False
    ).values
    size = sum(np.abs(x).sum(axis=tuple(range(1, x.ndim))) for x in phi.values())[:, None]
    close = (np.abs(claim(sketch, phi).sum(axis=1) - whole) <= 1e-13 * size).all()
    yield bool(close), f"{case.name}: the sketched steps do not sum to the sketched gradient"


@statement(
    "sketch.conservation",
    paper="Main text, display on conservation after sketching",
    method="exact",
    claim=SketchMap.apply,
    mutants={
        "a new sketch per step": _a_new_sketch_per_step,
        "no signs at the first step": _first_step_without_signs,
        "one bit per bucket": _signs_of_buckets,
    },
)
def sketched_steps_sum_to_the_sketched_gradient(claim: Sketched, thorough: bool) -> Verdict:
    """sum over steps of S(phi_t) = S(g) for every sketch S, as long as all steps share it."""
    return Verdict.all(chain(_exact(claim, thorough), *(_floats(claim, case) for case in cases(thorough))))
