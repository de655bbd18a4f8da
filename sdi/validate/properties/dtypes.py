"""Single precision in, at least single precision out; double stays double; integers are exact where floats are.

At every magnitude that the type can hold: what is squared inside leaves its range long before the numbers do.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import LARGE, Subject

Array = np.ndarray
# Narrow integers may be computed with in float32, as np.result_type(x, np.float32) has it.
TOLERANCE = {
    "float64": 1e-12, "float32": 1e-5, "int64": 1e-12, "int32": 1e-12, "int16": 1e-5, "int8": 1e-5,
    "uint64": 1e-12, "uint32": 1e-12, "uint16": 1e-5, "uint8": 1e-5,
}  # fmt: skip
# Exact in the type, and so is their sum in float32.
LARGEST = {
    "float64": 100, "float32": 100, "int64": 10**10, "int32": 10**5, "int16": 1000, "int8": 100,
    "uint64": 10**10, "uint32": 10**5, "uint16": 1000, "uint8": 100,
}  # fmt: skip
MAGNITUDES = (1e-33, 1e-25, 1e-18, 1e-9, 1e-4, 1.0, 1e4, 1e5, 1e6, 1e9, 1e18, 1e25, 1e32)  # of single precision
BATCHES = (40, 300, 1100, 4500)  # arrays
MIXED = ("int64", "int8", "bool", "float32", "float64")  # of one side, where the other is of double precision
OUTER = ((1.0, 1.0), (1e-24, 1e24), (1e-14, 1e-14), (1e14, 1e14), (1e5, 1e3))  # of u and of v


@sketch_property(
    "dtypes",
    says="float32, float64 and integers are sketched in their own precision or a better one, at every magnitude",
    remedy="compute in np.result_type(x, np.float32) or better; float16 or a narrow integer inside apply loses digits; "
    "squares leave the range of float32 below 1e-22 and above 1e19",
    needs=("repeatable", "layout"),
)
def dtypes(subject: Subject) -> Evidence:
    return first_wrong(_tries(subject), f"{', '.join(TOLERANCE)}; float32 from {MAGNITUDES[0]:g} to {MAGNITUDES[-1]:g}")


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        rng = subject.rng(4, k)
        for name, tolerance in TOLERANCE.items():
            least = 0 if name.startswith("u") else -LARGEST[name]
            x = rng.integers(least, LARGEST[name] + 1, size=sketch.shape)
            wanted = np.asarray(sketch.apply(x.astype(np.float64)))
            got = np.asarray(sketch.apply(x.astype(name)))
            if name.startswith("float") and np.result_type(got, name) != got.dtype:
                yield f"apply of {name} gives {got.dtype}", at(sketch, x=x)
                continue
            yield _far(got, wanted, np.abs(x).sum(), tolerance, f"apply of {name}"), at(sketch, x=x)
            turned = sketch.apply(x.astype(np.dtype(name).newbyteorder()))  # as files of other machines have it
            words = f"apply of {name} in the other byte order"
            yield _far(turned, wanted, np.abs(x).sum(), tolerance, words), at(sketch, x=x)
        for size in MAGNITUDES:
            y = ((rng.standard_normal(sketch.shape) + 1e-4) * size).astype(np.float32)
            wanted = sketch.apply(y.astype(np.float64))
            off = _far(sketch.apply(y), wanted, np.abs(y.astype(np.float64)).sum(), 1e-6, "apply of float32")
            yield off, at(sketch, x=y)
        if len(sketch.shape) == 2:
            yield from _outer_tries(sketch, rng)
    yield from _batch_tries(subject)
    for k, sketch in enumerate(subject.drawn(LARGE)):
        y = subject.rng(18, k).standard_normal(sketch.shape).astype(np.float32)
        wanted = sketch.apply(y.astype(np.float64))
        yield _far(sketch.apply(y), wanted, np.abs(y).sum(dtype=np.float64), 1e-6, "apply of float32"), at(sketch)


def _batch_tries(subject: Subject) -> Iterator[Try]:
    """Many arrays at once, which a class may handle otherwise than one."""
    for shape, n in product(subject.shapes, BATCHES):
        sketch, rng = subject.draw(2, shape), subject.rng(25, n)
        x = rng.standard_normal((n, *shape))
        for name, given in (("float32", x.astype(np.float32)), ("int16", (4096 * x).astype(np.int16))):
            wanted, size = sketch.apply(given.astype(np.float64)), np.abs(given[0].astype(np.float64)).sum()
            yield _far(sketch.apply(given), wanted, size, 1e-6, f"apply of {n} arrays of {name}"), at(sketch)


def _outer_tries(sketch: object, rng: np.random.Generator) -> Iterator[Try]:
    apply_outer = sketch.apply_outer  # type: ignore[attr-defined]
    for sizes in OUTER:
        u, v = (
            (rng.standard_normal((3, d)) * size).astype(np.float32)
            for d, size in zip(sketch.shape, sizes, strict=True)  # type: ignore[attr-defined]
        )
        wide = tuple(side.astype(np.float64) for side in (u, v))
        got, total = np.asarray(apply_outer(u, v)), (np.abs(wide[0]).T @ np.abs(wide[1])).sum()
        if np.result_type(got, np.float32) != got.dtype:
            yield f"apply_outer of float32 gives {got.dtype}", at(sketch, u=u, v=v)
            continue
        yield _far(got, apply_outer(*wide), total, 1e-6, "apply_outer of float32"), at(sketch, u=u, v=v)
    for side, name in product((0, 1), MIXED):  # tokens as one-hot rows, a mask as v
        pair = [rng.standard_normal((3, d)) for d in sketch.shape]  # type: ignore[attr-defined]
        pair[side] = rng.integers(0, 2, size=pair[side].shape).astype(float)
        given = [x.astype(name) if k == side else x for k, x in enumerate(pair)]
        tolerance = TOLERANCE.get(name, 1e-5)  # a side of single precision may be transformed in it
        words, size = f"apply_outer with {'uv'[side]} of {name}", (np.abs(pair[0]).T @ np.abs(pair[1])).sum()
        yield _far(apply_outer(*given), apply_outer(*pair), size, tolerance, words), at(sketch, u=given[0], v=given[1])


def _far(got: Array, wanted: Array, size: float, tolerance: float, what: str) -> str | None:
    with np.errstate(all="ignore"):
        off = np.abs(np.asarray(got, dtype=np.float64) - wanted).max(initial=0)
    good = off <= tolerance * (size + np.abs(wanted).max(initial=0))
    return None if good else f"{what} is {off:.3g} off that of float64"
