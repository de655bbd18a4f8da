"""Kept whole: the sketch is the parameter itself, so inner products have no error, and its factor is 0.

Decided exactly: the library's Keep, written out as a matrix, is the identity for vectors, matrices and larger arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sdi.sketch.shipped.count_and_tensor import Keep

from ..machinery.agreement import Case, Shape
from ..machinery.statement import Verdict, statement

Draw = Callable[[Shape, int], Any]


def draw(shape: Shape, m: int) -> Keep:
    return Keep.draw(shape, m, seed=0, name="w")


class _Reversed(Keep):
    def apply(self, x: Any) -> Any:
        return super().apply(x)[..., ::-1] * np.arange(1, self.size + 1)


class _Claims(Keep):
    def variance_factor(self) -> float:
        return 1.0


def _cases(draw: Draw, thorough: bool) -> Iterator[Case]:
    for shape, m in (((1,), 1), ((5,), 2), ((3, 4), 100), ((2, 3), 1)):
        sketch = draw(shape, m)
        identity = np.eye(int(np.prod(shape)), dtype=np.int64)
        gram = sketch.dense().T @ sketch.dense()
        yield np.array_equal(gram, identity), f"shape {shape}: inner products change: {gram.tolist()}"
        yield sketch.variance_factor() == 0, f"shape {shape}: claims a factor of {sketch.variance_factor()}"


@statement(
    "exact.no_error",
    paper="beside the paper: parameters kept whole",
    method="exact",
    claim=draw,
    mutants={
        "entries scaled": lambda shape, m: _Reversed(shape),
        "a factor that is not 0": lambda shape, m: _Claims(shape),
    },
)
def kept_parameters_have_no_error(draw: Draw, thorough: bool) -> Verdict:
    """<S x, S y> = x . y for every x and y, if the parameter is kept whole."""
    return Verdict.all(_cases(draw, thorough))
