"""A sharper bound: the worst case f |X|^2 |Y|^2 is that of X = Y; in general, f/2 (|X|^2 |Y|^2 + (X.Y)^2) is enough.

With N = |X| |Y| and z = X.Y, the variances of our sketches are made of N^2, z^2 and

    |X^T Y|^2 + |X Y^T|^2                  <= N^2 + z^2,
    |X^T Y|^2 + tr(X^T Y X^T Y) = |X^T Y + Y^T X|^2 / 2 <= N^2 + z^2, and the same for X Y^T.

The first: X (x) Y less itself with the rows of the two swapped, with the columns swapped, plus with both, has a squared
norm of four times the difference. The second: for |X| = |Y|, X^T Y + Y^T X = (P^T P - M^T M) / 2 with P = X + Y and
M = X - Y, so its square is (|P^T P|^2 + |M^T M|^2 - 2 |P M^T|^2) / 4 <= (|P|^4 + |M|^4) / 4 = 2 N^2 + 2 z^2.

Put into the closed forms, which other statements decide: CountSketch, TensorSketch, the two-sided projection, and
Hadamard, whose bracket is TensorSketch's with one bucket. The mask has no such bound: with D = 2, m = 1, (1, 1) against
(1, -1) has f N^2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import inf
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.estimate_variance import Pairs, half_bound

from ..machinery.statement import Verdict, statement
from ..variants.kronecker import kronecker_variance

Array = np.ndarray
Bound = Callable[[float, Pairs], Any]


def pairs(thorough: bool) -> Iterator[tuple[Array, Array]]:
    """Random integers of every rank, equal, opposite, orthogonal; and diagonals of signs, where the second is tight."""
    rng = np.random.default_rng(0)
    one = np.ones((6, 6), dtype=np.int64)
    yield one, one
    yield np.eye(4, dtype=np.int64), np.diag([1, 1, -1, -1])
    yield np.diag([1, 1]), np.diag([1, -1])
    yield np.outer([1, 1, 1], [1, 1]), np.outer([1, 1, 1], [1, -1])
    for k in range(400 if thorough else 60):
        rank, shape = 1 + k % 4, (2 + k % 5, 2 + k % 3)
        X, Y = (rng.integers(-3, 4, (shape[0], rank)) @ rng.integers(-3, 4, (rank, shape[1])) for _ in range(2))
        yield X, Y
        yield X, X + (k % 3) * Y
        yield X, X[::-1].copy()


def variances(X: Array, Y: Array) -> Iterator[tuple[str, float, float]]:
    """(sketch, its worst case, its variance) of closed forms."""
    x, y = X.ravel(), Y.ravel()
    for m in (1, 2, 7, 64):
        yield f"count, m={m}", 2 / m, float(bounds.count_sketch_variance(x, y, m))
        yield f"tensor, m={m}", bounds.tensor_sketch_factor(m), float(bounds.tensor_sketch_variance(X, Y, m))
    for k1, k2 in ((1, 1), (2, 3), (8, 8), (4, inf)):
        factor = (1 + 2 / k1) * (1 + (0 if k2 == inf else 2 / k2)) - 1
        yield f"two-sided, {k1} x {k2}", factor, float(kronecker_variance(X, Y, k1, k2, signs=False))
        yield f"two-sided signs, {k1} x {k2}", factor, float(kronecker_variance(X, Y, k1, k2))


def _cases(claim: Bound, thorough: bool) -> Iterator[tuple[Any, str]]:
    for X, Y in pairs(thorough):
        x, y = (side.reshape(1, -1).astype(np.float64) for side in (X, Y))
        for name, factor, variance in variances(X, Y):
            bound = float(claim(factor, Pairs.of(x, y))[0, 0])
            close = bound * (1 + 1e-12) + 1e-12
            yield variance <= close, f"{name}: variance {variance:g} above {bound:g} for {X.tolist()}, {Y.tolist()}"
            norms = float((x @ x.T * (y @ y.T))[0, 0])
            yield bound <= factor * norms * (1 + 1e-12), f"{name}: {bound:g} above the bound {factor * norms:g}"


def _a_third(factor: float, of: Pairs) -> Array:
    return half_bound(factor, of) * 2 / 3


def _without_product(factor: float, of: Pairs) -> Array:
    return np.asarray(factor / 2 * of.norms)


def _whole_product(factor: float, of: Pairs) -> Array:
    return np.asarray(factor * np.square(of.products))


@statement(
    "half_bound",
    paper="beside the paper: the variance bound for gradients that are not alike",
    method="float64",
    claim=half_bound,
    mutants={"a third of f": _a_third, "without (X.Y)^2": _without_product, "f (X.Y)^2 alone": _whole_product},
)
def half_bound_holds(claim: Bound, thorough: bool) -> Verdict:
    """Var <S X, S Y> <= f/2 (|X|^2 |Y|^2 + (X.Y)^2), for all shipped sketches but the mask."""
    return Verdict.all(_cases(claim, thorough))
