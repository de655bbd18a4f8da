"""The class has what the protocol asks for, and draws sketches of matrices and of vectors."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite, prod
from typing import Any

import numpy as np

from sdi.sketch.as_json import KINDS, is_own
from sdi.sketch.protocol import kind_of
from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.sketch_under_test import LARGE, NARROW, WIDTHS, Shape, Subject, matrix_of

PARTS = ("shape", "size", "nbytes", "tables", "apply", "apply_outer", "variance_factor")
ROUNDING, WRITTEN_OUT = 1e-9, 1000  # entries of a parameter whose sketch is written out as a matrix


@sketch_property(
    "protocol",
    says="it draws sketches of matrices and vectors that have all that sdi.Sketch asks for, "
    "with the size and bytes they claim",
    remedy="inherit from sdi.LinearSketch, which fills in all but draw, shape, size, tables, apply and variance_factor",
)
def protocol(subject: Subject) -> Evidence:
    sketch = subject.draw()
    claims = f"{sketch.size} numbers and {sketch.nbytes} bytes of tables" if not _lacks(sketch) else ""
    return first_wrong(_tries(subject), claims)


def _lacks(sketch: Any) -> list[str]:
    return [part for part in PARTS if not hasattr(sketch, part)]


def _tries(subject: Subject) -> Iterator[Try]:
    for shape in reversed(subject.shapes):
        sketch = subject.draw(shape=shape)
        case = subject.call(shape)
        lacks = _lacks(sketch)
        if lacks:
            yield f"a {type(sketch).__name__} has no {', '.join(lacks)}", case
            return
        yield from ((wrong, case) for wrong in _claims(sketch, shape, subject.m))
    for shape, m in (*NARROW, *WIDTHS, *LARGE):
        for sketch in subject.drawn(((shape, m),)):
            yield from ((wrong, f"shape {shape}, m={m}") for wrong in _claims(sketch, shape, m))


def _claims(sketch: Any, shape: Shape, m: int) -> Iterator[str | None]:
    """What is not true of what it says of itself."""
    yield None if tuple(sketch.shape) == shape else f"shape is {sketch.shape}, drawn for {shape}"
    sizes = sketch.size, *sketch.shape
    whole = all(isinstance(k, (int, np.integer)) and not isinstance(k, bool) and k > 0 for k in sizes)
    yield None if whole else f"size is {sketch.size!r} and shape {sketch.shape!r}, not whole numbers above 0"
    taken = kind_of(sketch) in KINDS and not is_own(sketch)
    yield None if not taken else f"kind is {kind_of(sketch)!r}, the library's own: two sketches could look equal"
    factor = sketch.variance_factor()
    good = isinstance(factor, (int, float, np.number)) and isfinite(factor) and factor >= 0
    yield None if good else f"variance_factor() is {factor!r}, not a finite number of at least 0"
    good = sketch.size <= m or (sketch.size == prod(shape) and factor == 0)  # the latter keeps everything
    yield None if good else f"size is {sketch.size}, which is more than m = {m}"
    got = np.asarray(sketch.apply(np.zeros((3, *shape)))).shape
    yield None if got == (3, sketch.size) else f"apply gives shape {got}, size says {(3, sketch.size)}"
    tables = {name: np.asarray(table) for name, table in sketch.tables().items()}
    odd = [name for name, table in tables.items() if table.dtype.kind not in "iubfc"]
    yield None if not odd else f"table {odd[0]!r} holds {tables[odd[0]].dtype}, not numbers"
    held = sum(table.nbytes for table in tables.values())
    yield None if sketch.nbytes == held else f"nbytes is {sketch.nbytes}, its tables have {held}"
    if factor == 0 and prod(shape) <= WRITTEN_OUT:
        S = matrix_of(sketch)
        off = float(np.abs(S.T @ S - np.eye(prod(shape))).max())
        wrong = f"variance_factor() is 0, and yet S^T S is {off:.3g} off the identity: products are not kept"
        yield None if off <= ROUNDING else wrong
