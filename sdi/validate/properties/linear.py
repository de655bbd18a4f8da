"""apply is linear, and treats every array of a batch alike."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import Subject

FACTORS = ((1.0, 1.0), (1.0, -1.0), (-3.0, 0.3), (1e-6, 1e6))
EXTREME = ((1e-30, 3e-30), (1e30, -3e30))  # no threshold and no clipping shows at numbers of order one
ROUNDING = 1e-10  # of the norms of what is added
BATCHES = ((9, 2), (40,))  # what is done to the first few arrays may not be done to the others


@sketch_property(
    "linear",
    says="S(a x + b y) = a S(x) + b S(y), for each array of a batch as for one alone",
    remedy="steps can only be sketched as they come if the sketch is linear: no rounding, clipping, normalising or "
    "thresholding of x inside apply",
    needs=("repeatable", "layout"),
)
def linear(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), "integers, fractions, numbers from 1e-30 to 1e30, batches")


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        rng = subject.rng(1, k)
        zero = np.abs(sketch.apply(np.zeros(sketch.shape))).max(initial=0)
        yield (None if zero == 0 else f"S(0) has an entry of {zero:.3g}"), at(sketch)
        first = np.zeros(sketch.shape)
        first.flat[0] = 1.0
        whole, normal = rng.integers(-3, 4, size=(2, *sketch.shape)) * 1.0, rng.standard_normal((2, *sketch.shape))
        pairs: list[tuple[np.ndarray, np.ndarray]] = [(first, first), (first, 0.37 * first)]
        pairs += [(both[0], both[1]) for both in (whole, normal)]
        for factors, (x, y) in product((FACTORS, EXTREME), pairs):
            for a, b in factors:
                left, sx, sy = sketch.apply(a * x + b * y), sketch.apply(x), sketch.apply(y)
                right = a * sx + b * sy
                size = abs(a) * (_norm(x) + _norm(sx)) + abs(b) * (_norm(y) + _norm(sy))
                off = np.abs(left - right).max(initial=0)
                case = at(sketch, a=a, b=b, x=x, y=y)
                yield (None if off <= ROUNDING * size else f"S(ax + by) and a S(x) + b S(y) differ by {off:.3g}"), case
        for lead in BATCHES:
            sizes = np.resize([1.0, 1e3, 1e-3], lead).reshape(*lead, *[1] * first.ndim)
            batch = rng.standard_normal((*lead, *sketch.shape)) * sizes
            together = sketch.apply(batch)
            alone = np.stack([sketch.apply(x) for x in batch.reshape(-1, *sketch.shape)]).reshape(*lead, -1)
            same = together.shape == alone.shape and np.allclose(together, alone, rtol=1e-9, atol=1e-12)
            wrong = None if same else "arrays in a batch and alone give different answers"
            yield wrong, at(sketch, f", a batch of shape {batch.shape}")


def _norm(x: np.ndarray) -> float:
    return float(np.linalg.norm(x))
