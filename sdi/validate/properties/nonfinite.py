"""NaN and infinity come out where they go in: a diverged gradient must not look like a good one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import Subject

Array = np.ndarray
BAD = (np.nan, np.inf, -np.inf)
LARGE_BATCH = 300


@sketch_property(
    "nonfinite",
    says="NaN and infinity in an array come out of it, and out of no other array of the batch",
    remedy="no nan_to_num, no nansum, no mask of what is not finite: the caller must see that a gradient has diverged. "
    "Raising a ValueError is fine, too",
    needs=("repeatable", "layout"),
)
def nonfinite(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), "NaN and infinities, in whole arrays, single entries and single tokens")


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        rng = subject.rng(17, k)
        for dtype in (np.float64, np.float32):
            x = rng.standard_normal((3, *sketch.shape)).astype(dtype)
            first, last = (1, *(0 for _ in sketch.shape)), (1, *(d - 1 for d in sketch.shape))
            for bad in BAD:
                yield passed_on(sketch.apply, (x,), 1, bad), at(sketch, f", {bad} everywhere in the second of three")
                unit = np.zeros(sketch.shape)
                unit[last[1:]] = 1.0
                if sketch.apply(unit).any():  # a mask need not see it
                    yield passed_on(sketch.apply, (x,), last, bad), at(sketch, f", {bad} in the last entry")
                unit = np.zeros(sketch.shape)
                unit[first[1:]] = 1.0
                if sketch.apply(unit).any():
                    yield passed_on(sketch.apply, (x,), first, bad), at(sketch, f", {bad} in the first entry")
            many = rng.standard_normal((LARGE_BATCH, *sketch.shape)).astype(dtype)
            yield passed_on(sketch.apply, (many,), 1, np.nan), at(sketch, f", nan in the second of {LARGE_BATCH}")
            if len(sketch.shape) == 2:
                yield from outer_tries(sketch.apply_outer, sketch, rng, dtype)


def outer_tries(apply_outer: Callable[..., Any], sketch: Any, rng: np.random.Generator, dtype: Any) -> Iterator[Try]:
    """In one token of either side."""
    u, v = (rng.standard_normal((3, 4, d)).astype(dtype) for d in sketch.shape)
    for bad in BAD:
        case = at(sketch, f", {bad} in the third token of the second of three")
        yield passed_on(apply_outer, (u, v), (1, 2), bad), case
        yield passed_on(lambda v, u: apply_outer(u, v), (v, u), (1, 2), bad), case


def passed_on(apply: Callable[..., Any], arrays: tuple[Array, ...], where: Any, bad: float) -> str | None:
    """What is wrong with the answer when `bad` stands at `where` in the first of the arrays."""
    wanted = np.asarray(apply(*arrays))
    first = arrays[0].copy()
    first[where] = bad
    try:
        with np.errstate(all="ignore"):
            got = np.asarray(apply(first, *arrays[1:]))
    except (ValueError, ArithmeticError):
        return None  # refused, so that nobody takes it for a number
    if np.isfinite(got[1]).all():
        return f"{bad} goes in, and finite numbers come out"
    others = np.arange(len(got)) != 1
    same = np.allclose(got[others], wanted[others], rtol=1e-4, atol=1e-5)
    return None if same else f"{bad} in one array of a batch changes the others"
