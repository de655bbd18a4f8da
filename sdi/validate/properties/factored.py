"""apply_outer, which never forms the matrix, is apply of the sum of outer products; dense() is apply written out."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from sdi.sketch.protocol import matrix_shape
from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import LARGE, WIDTHS, Subject, matrix_of

Array = np.ndarray
ROUNDING = 1e-9
# Examples and tokens: none at all, and more than one kernel or chunk may take at a time.
TOKENS = ((1,), (3,), (2, 3), (4, 1), (3, 8), (40,), (9, 40), (0,), (2, 0), (0, 3), (2, 3, 4))
MANY = ((1100,), (2, 300), (2200, 3), (300, 1), (2, 64), (3, 128), (2, 256), (512,), (1, 4099), (64, 2), (5000, 1))


@sketch_property(
    "factored",
    says="apply_outer(u, v) = apply(sum of outer(u, v)), and dense() is the matrix of apply",
    remedy="compare both with a double loop over rows and columns at the smallest case; leave apply_outer to "
    "LinearSketch until it is right",
    needs=("repeatable", "linear"),
)
def factored(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), "0 to 4,099 tokens, 0 to 5,000 examples, with and without a batch")


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        if hasattr(sketch, "dense"):
            dense, wanted = np.asarray(sketch.dense(), dtype=np.float64), matrix_of(sketch)
            off = np.abs(dense - wanted).max(initial=0) if dense.shape == wanted.shape else np.inf
            yield (None if off <= ROUNDING else f"dense() and apply differ by {off:.3g}"), at(sketch)
        rng = subject.rng(2, k)
        square = matrix_shape(sketch.shape)  # a batch of just this many examples and tokens
        for lead in (*TOKENS, square) if prod(square) < 100 else TOKENS:
            yield _same(sketch, lead, rng)
        yield _same(sketch, (5, 9), rng, zeros=0.5)
        yield from _special(sketch, rng)
    for lead in MANY if len(subject.shape) == 2 else ():
        yield _same(subject.draw(3), lead, subject.rng(19))
    for k, sketch in enumerate(subject.drawn(tuple(size for size in WIDTHS if len(size[0]) == 2))):
        yield _same(sketch, (3, 200), subject.rng(26, k))
    for k, sketch in enumerate(subject.drawn(tuple(size for size in LARGE if len(size[0]) == 2))):
        for lead in ((5,), (2, 3)):
            yield _same(sketch, lead, subject.rng(20, k))


def _special(sketch: Any, rng: np.random.Generator) -> Iterator[Try]:
    """Sides that an implementation may have a way of its own for: one array twice, one-hot, equal or lost tokens."""
    rows, cols = matrix_shape(sketch.shape)
    u, v = (rng.standard_normal((3, 6, d)) for d in (rows, cols))
    hot, cold = np.eye(rows)[rng.integers(rows, size=(3, 6))], np.eye(cols)[rng.integers(cols, size=(3, 6))]
    last = np.where(np.arange(6) < 4, 1.0, 0.0)[:, None]  # what follows the end of a text
    sizes = np.array([1.0, 1e8, 1e-8, 1.0, 1e4, 1e-4])[:, None]
    both = np.stack([u[0, 0], -u[0, 0]])[None]  # tokens that cancel
    yield from (
        _differ(sketch, *sides)
        for sides in (
            (hot, v), (u, cold), (hot, cold), (u * last, v), (u, v * last), (np.ones_like(u), v), (u, np.ones_like(v)),
            (u[:, :1].repeat(6, axis=1), v), (u, v[:, :1].repeat(6, axis=1)), (u[:1].repeat(3, axis=0), v),
            (np.abs(u), np.abs(v)), (u * sizes, v), (both, v[:1, :2]), (np.zeros_like(u), v),
            (np.round(3 * u), np.round(3 * v)), (u[::-1, ::-1], v.swapaxes(0, 1).copy().swapaxes(0, 1)),
            (np.broadcast_to(u[:1], u.shape), v), (u, np.broadcast_to(v[:, :1], v.shape)),
        )
    )  # fmt: skip
    if rows == cols:
        yield _differ(sketch, u, u)


def _same(sketch: Any, lead: tuple[int, ...], rng: np.random.Generator, zeros: float = 0.0) -> Try:
    """With a share of zeros among the entries: a zero is no sign of padding."""
    sides = matrix_shape(sketch.shape)  # of a vector: one column, so that v holds a weight for each token
    u, v = (np.ones((1, d)) if lead == (1,) else rng.standard_normal((*lead, d)) for d in sides)
    u, v = (np.where(rng.random(side.shape) < zeros, 0.0, side) for side in (u, v))
    return _differ(sketch, u, v)


def _differ(sketch: Any, u: Array, v: Array) -> Try:
    case, lead = at(sketch, u=u, v=v), u.shape[:-1]
    try:
        whole = np.asarray(sketch.apply((np.swapaxes(u, -1, -2) @ v).reshape(*lead[:-1], *sketch.shape)))
        got = np.asarray(sketch.apply_outer(u, v))
    except ValueError:
        if 0 not in lead[:-1] and len(sketch.shape) == 2:
            raise
        return None, case  # an empty batch may be refused, and so may pairs for a vector
    if got.shape != whole.shape:
        return f"apply_outer gives shape {got.shape}, apply {whole.shape}", case
    axes = (-2, -1)
    size = np.linalg.norm(u, axis=axes) * np.linalg.norm(v, axis=axes) + np.linalg.norm(whole, axis=-1)
    off = np.abs(got - whole).max(axis=-1, initial=0)
    return (None if (off <= ROUNDING * size).all() else f"apply_outer and apply differ by {off.max():.3g}"), case
