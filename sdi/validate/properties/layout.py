"""Answers do not depend on how an array lies in memory, and arguments are not written to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from sdi.validate.evidence import Case, Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import Subject

Array = np.ndarray
TOLERANCE = {np.float64: 1e-9, np.float32: 1e-4}


@sketch_property(
    "layout",
    says="views, transposes, strides and Fortran order give what a contiguous copy gives; arguments are left alone",
    remedy="index x, or reshape a C-ordered copy (np.ascontiguousarray); never read its buffer or ravel(order='K')",
    needs=("repeatable",),
)
def layout(subject: Subject) -> Evidence:
    return first_wrong(
        _tries(subject), "views: Fortran order, transposed, strided, reversed, repeated, unaligned, read-only"
    )


def views(x: Array) -> dict[str, Array]:
    """Arrays equal to x that lie otherwise in memory."""
    wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), dtype=x.dtype)
    wide[..., ::2] = x
    odd = np.frombuffer(b"\0" + x.tobytes(), dtype=x.dtype, offset=1).reshape(x.shape)  # as a file may hold it
    still = x.copy()
    still.flags.writeable = False
    return {
        "as it was": x.copy(),
        "in Fortran order": np.array(x, order="F"),
        "transposed": np.ascontiguousarray(x.T).T,
        "with strides": wide[..., ::2],
        "reversed": np.ascontiguousarray(x[..., ::-1])[..., ::-1],
        "read-only": still,
        "at an odd address": odd,
    }


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        rng = subject.rng(3, k)
        for whole in (True, False):  # a person can read whole numbers, and others have digits to lose
            for lead in ((), (2,)):
                x = _numbers(rng, (*lead, *sketch.shape), whole)
                yield from _same(sketch.apply, x, at(sketch, x=x), "apply")
            if len(sketch.shape) == 2:
                u, v = (_numbers(rng, (3, d) if whole else (2, 3, d), whole) for d in sketch.shape)
                case = at(sketch, u=u, v=v)
                yield from _same(partial(_outer, sketch, v), u, case, "apply_outer")
                yield from _same(partial(sketch.apply_outer, u), v, case, "apply_outer")
        x = rng.standard_normal(sketch.shape)
        repeated = np.broadcast_to(x, (3, *sketch.shape))  # one array three times, with a stride of zero
        off = np.abs(sketch.apply(repeated) - sketch.apply(repeated.copy())).max(initial=0)
        good = off <= 1e-9 * np.linalg.norm(x)
        yield (None if good else f"apply of an array repeated by a view is {off:.3g} off"), at(sketch, x=x)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], whole: bool) -> Array:
    return rng.integers(1, 9, size=shape).astype(float) if whole else rng.standard_normal(shape)


def _outer(sketch: Any, v: Array, u: Array) -> Array:
    return np.asarray(sketch.apply_outer(u, v))


def _same(apply: Callable[[Array], Array], x: Array, case: Case, verb: str) -> Iterator[Try]:
    for dtype, tolerance in TOLERANCE.items():
        given = x.astype(dtype)
        wanted = apply(given.copy())
        size = np.abs(wanted).max(initial=0) + np.linalg.norm(x)
        for how, view in views(given).items():
            before = view.copy()
            off = np.abs(apply(view) - wanted).max(initial=0)
            wrong = None if off <= tolerance * size else f"{verb} of an array {how} is {off:.3g} off"
            if wrong is None and not np.array_equal(view, before):
                wrong = f"{verb} changed its argument"
            yield wrong, case
