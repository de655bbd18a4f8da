"""apply_outer, which never forms the matrix, is apply of the sum of outer products; dense() is apply written out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import Subject, matrix_of

ROUNDING = 1e-9
TOKENS = ((1,), (3,), (2, 3), (40,), (9, 40))  # the last axis; more than one kernel or chunk may take at a time


@sketch_property(
    "factored",
    says="apply_outer(u, v) = apply(sum of outer(u, v)), and dense() is the matrix of apply",
    remedy="compare both with a double loop over rows and columns at the smallest case; leave apply_outer to "
    "LinearSketch until it is right",
    needs=("repeatable", "linear"),
)
def factored(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), "1, 3 and 40 tokens, with and without a batch")


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        if hasattr(sketch, "dense"):
            off = np.abs(np.asarray(sketch.dense(), dtype=np.float64) - matrix_of(sketch)).max(initial=0)
            yield (None if off <= ROUNDING else f"dense() and apply differ by {off:.3g}"), at(sketch)
        if len(sketch.shape) != 2:
            continue
        rng = subject.rng(2, k)
        for lead in TOKENS:
            u, v = (np.ones((1, d)) if lead == (1,) else rng.standard_normal((*lead, d)) for d in sketch.shape)
            whole = sketch.apply(np.swapaxes(u, -1, -2) @ v)
            got = np.asarray(sketch.apply_outer(u, v))
            case = at(sketch, u=u, v=v)
            if got.shape != whole.shape:
                yield f"apply_outer gives shape {got.shape}, apply {whole.shape}", case
                continue
            size = np.linalg.norm(u) * np.linalg.norm(v) + np.linalg.norm(whole)
            off = np.abs(got - whole).max(initial=0)
            yield (None if off <= ROUNDING * size else f"apply_outer and apply differ by {off:.3g}"), case
