"""Single precision in, at least single precision out; double stays double; integers are exact where floats are."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import Subject

TOLERANCE = {"float64": 1e-12, "float32": 1e-5, "int64": 1e-12, "int32": 1e-12}


@sketch_property(
    "dtypes",
    says="float32, float64 and integers are sketched in their own precision or a better one",
    remedy="compute in np.result_type(x, np.float32) or better; float16 or a narrow integer inside apply loses digits",
    needs=("repeatable", "layout"),
)
def dtypes(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), ", ".join(TOLERANCE))


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        rng = subject.rng(4, k)
        x = rng.integers(-100, 101, size=sketch.shape)
        wanted = np.asarray(sketch.apply(x.astype(np.float64)))
        case = at(sketch, x=x)
        size = np.abs(x).sum() + np.abs(wanted).max(initial=0)
        for name, tolerance in TOLERANCE.items():
            got = np.asarray(sketch.apply(x.astype(name)))
            if name.startswith("float") and np.result_type(got, name) != got.dtype:
                yield f"apply of {name} gives {got.dtype}", case
                continue
            off = np.abs(got.astype(np.float64) - wanted).max(initial=0)
            yield (None if off <= tolerance * size else f"apply of {name} is {off:.3g} off that of float64"), case
        y = rng.standard_normal(sketch.shape) + 1e-4
        off = np.abs(sketch.apply(y.astype(np.float32)) - sketch.apply(y)).max(initial=0)
        size = np.abs(y).sum() + np.abs(sketch.apply(y)).max(initial=0)
        yield (None if off <= 1e-6 * size else f"apply of float32 is {off:.3g} off that of float64"), at(sketch, x=y)
