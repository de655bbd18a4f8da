"""TensorSketch is a linear operator on matrices, and a sum of outer products is sketched one by one.

    T(a X + b Y) = a T(X) + b T(Y),    T(sum_k u_k v_k^T) = sum_k CS(u_k) * CS'(v_k)    (* circular convolution)

and T is the m x (d d') matrix with one entry in every column: S(i, j) in row H(i, j).

Decided exactly, in integers: for every hash and sign at 2 x 2, and for drawn ones at larger sizes; the matrix is
built here from h and s by the definition, entry by entry, and compared with the operator and its `dense()`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import Any

import numpy as np

from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..machinery.broken_sketches import last_one_wins
from ..machinery.moments import every_count_sketch
from ..machinery.statement import Verdict, statement
from .fft import circular_convolution

Array = np.ndarray
Apply = Callable[[TensorSketch, Array], Array]


def by_definition(sketch: TensorSketch) -> Array:
    """The operator as a matrix, from h and s alone."""
    rows, cols, m = sketch.rows, sketch.cols, sketch.m
    d, d2 = sketch.shape
    matrix = np.zeros((m, d * d2), dtype=np.int64)
    for i, j in product(range(d), range(d2)):
        matrix[(int(rows.h[i]) + int(cols.h[j])) % m, i * d2 + j] = int(rows.s[i]) * int(cols.s[j])
    return matrix


def _absolute(sketch: TensorSketch, X: Array) -> Array:
    return np.abs(sketch.apply(X))


def _one_hash_for_both(sketch: TensorSketch, X: Array) -> Array:
    return TensorSketch(sketch.rows, sketch.rows).apply(X) if X.shape[-1] == X.shape[-2] else sketch.apply(X)


def _sketches(thorough: bool) -> Iterator[TensorSketch]:
    small = (product(every_count_sketch(2, m), repeat=2) for m in range(1, 4 if thorough else 3))
    yield from (TensorSketch(rows, cols) for rows, cols in chain.from_iterable(small))
    for (d, d2), m, family in product([(1, 6), (5, 3), (7, 11)], [2, 8, 32], ["table", "polynomial"]):
        yield TensorSketch.draw((d, d2), m, name="linear", family=family)


def _cases(apply: Apply, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    for sketch in _sketches(thorough):
        d, d2 = sketch.shape
        X, Y = rng.integers(-9, 10, (2, 3, d, d2))
        where = f"m={sketch.m}, H={sketch.H.tolist()}, S={sketch.S.tolist()}"
        combined = 3 * apply(sketch, X) - 5 * apply(sketch, Y)
        yield np.array_equal(apply(sketch, 3 * X - 5 * Y), combined), f"not linear: {where}"
        matrix = by_definition(sketch)
        yield np.array_equal(apply(sketch, X), X.reshape(3, -1) @ matrix.T), f"not the definition: {where}"
        yield np.array_equal(sketch.dense(), matrix), f"dense() is not the definition: {where}"
        u, v = rng.integers(-9, 10, (4, d)), rng.integers(-9, 10, (4, d2))  # four tokens
        one_by_one = circular_convolution(sketch.rows.apply(u), sketch.cols.apply(v)).sum(0)
        yield np.array_equal(apply(sketch, u.T @ v), one_by_one), f"not the sum over outer products: {where}"


@statement(
    "tensor_sketch.linear",
    paper="Appendix on sketches, lemma on TensorSketch as a linear operator",
    method="exact",
    claim=TensorSketch.apply,
    mutants={
        "the last entry of a bucket replaces the others": last_one_wins,
        "absolute values of the buckets": _absolute,
        "rows' hash used for columns too": _one_hash_for_both,
    },
)
def tensor_sketch_is_linear(apply: Apply, thorough: bool) -> Verdict:
    """T(aX + bY) = a T(X) + b T(Y), and T of a sum of outer products is the sum of their convolutions."""
    return Verdict.all(_cases(apply, thorough))
