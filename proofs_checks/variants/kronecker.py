"""The two-sided projection A X B^T is unbiased; its variance, exactly, and its worst case, of the order 1/sqrt(m).

Hypotheses: A (k1 x d) and B (k2 x d') are independent, with independent entries, normal or signs, over sqrt(k1) and
sqrt(k2); m = k1 k2. For normal entries

    Var <A X B^T, A Y B^T> = (|X Y^T|^2 + tr (X^T Y)^2) / k1 + (|X^T Y|^2 + tr (X^T Y)^2) / k2
                             + (|X|^2 |Y|^2 + |X Y^T|^2 + |X^T Y|^2 + <X, Y>^2) / (k1 k2)

and for signs, as the library draws, less

    2 diag1 / k1 + 2 diag2 / k2 + (2 diag1 + 2 diag2 + 2 rows + 2 cols - 4 entries) / (k1 k2)

    diag1 = |diag X Y^T|^2, diag2 = |diag X^T Y|^2, entries = sum of (X_ij Y_ij)^2,
    rows, cols = the sum of |X_i|^2 |Y_i|^2 over the rows, or columns, i.

A side that is kept as it is, because it has at most k entries, stands for k = infinity: its terms are left out.

Decided exactly, for all real matrices: the moments of each side are counted (`projections`), a monomial touches at
most four rows and four columns, and the two sides are one polynomial. The library's class is written out for every
pair of sign matrices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import inf, isinf
from typing import Any, NamedTuple

import numpy as np

from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.kronecker import KroneckerSketch

from ..machinery.agreement import Case, Shape, agreement, ignores_zeros
from ..machinery.moments import all_signs
from ..machinery.projections import Law, gaussian_column, gram_of_columns, moments_of_draws, sign_column, two_sided
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Side = float  # k, or infinity for a side that is kept
LISTED: tuple[tuple[Shape, int], ...] = (((2, 2), 1), ((2, 2), 4), ((2, 3), 2), ((3, 2), 4), ((4,), 2), ((1, 3), 2))


def kronecker_variance(X: Array, Y: Array, k1: Side, k2: Side, signs: bool = True) -> Any:
    """Exact variance of <A X B^T, A Y B^T>, for normal entries or signs."""
    left, right, both = terms(X, Y, signs)
    above = [(left, k1, 1), (right, k2, 1), (both, k1, k2)]
    below = int(np.prod([k for k in (k1, k2) if not isinf(k)]))
    return sum(t * (below // int(k * l)) for t, k, l in above if not isinf(k * l)) / below


def terms(X: Array, Y: Array, signs: bool) -> tuple[Any, Any, Any]:
    """What stands over k1, over k2, and over k1 k2."""
    A, B, X2, Y2 = X.swapaxes(-1, -2) @ Y, X @ Y.swapaxes(-1, -2), X * X, Y * Y
    left, right, trace = _sum(B * B), _sum(A * A), _sum(A * A.swapaxes(-1, -2))
    both = _sum(X2) * _sum(Y2) + left + right + _sum(X * Y) ** 2
    if not signs:
        return left + trace, right + trace, both
    diag1, diag2 = (((X * Y).sum(axis) ** 2).sum(-1) for axis in (-1, -2))
    rows, cols = ((X2.sum(axis) * Y2.sum(axis)).sum(-1) for axis in (-1, -2))
    both = both - 2 * (diag1 + diag2 + rows + cols) + 4 * _sum(X2 * Y2)
    return left + trace - 2 * diag1, right + trace - 2 * diag2, both


def _sum(X: Array) -> Any:
    return X.sum((-1, -2))


def every_pair(shape: Shape, m: int) -> Iterator[tuple[Fraction, Any]]:
    """Every draw of the class; and for 2 x 2 at m = 4, where it would keep both sides, two signed ones."""
    if (shape, m) != ((2, 2), 4):
        yield from KroneckerSketch.enumerate_all(shape, m)
        return
    for left, right in product(all_signs(4).reshape(-1, 2, 2), repeat=2):
        yield Fraction(1, 256), KroneckerSketch(left, right, shape)


class Claim(NamedTuple):
    formula: Callable[..., Any] = kronecker_variance
    draws: Callable[[Shape, int], Iterable[Any]] = every_pair


def _with_signs_as_normal(X: Array, Y: Array, k1: Side, k2: Side, signs: bool = True) -> Any:
    return kronecker_variance(X, Y, k1, k2, signs=False)


def _sides_swapped(X: Array, Y: Array, k1: Side, k2: Side, signs: bool = True) -> Any:
    return kronecker_variance(X, Y, k2, k1, signs)


def _of_the_product_only(X: Array, Y: Array, k1: Side, k2: Side, signs: bool = True) -> Any:
    """As if the k1 k2 numbers were independent of one another."""
    return (sum(terms(X, Y, signs))) / (k1 * k2)


def _one_row_repeated(shape: Shape, m: int) -> Iterator[tuple[Fraction, KroneckerSketch]]:
    for probability, sketch in every_pair(shape, m):
        left = None if sketch.left is None else np.repeat(sketch.left[:1], len(sketch.left), axis=0)
        right = None if sketch.right is None else np.repeat(sketch.right[:1], len(sketch.right), axis=0)
        yield probability, KroneckerSketch(left, right, shape)


def sides_of(sketch: Any) -> tuple[Side, Side]:
    k1, k2 = (inf if table is None else len(table) for table in (sketch.left, sketch.right))
    return k1, k2


def _cases(claim: Claim, thorough: bool) -> Iterator[Case]:
    sizes = [(1, 1), (1, 3), (2, 1), (2, 3), *([(3, 4), (4, 2)] if thorough else [])]
    laws: dict[bool, Callable[[int], Law]] = {False: gaussian_column, True: sign_column}
    for (k1, k2), signs in ((k, signs) for k in sizes for signs in laws):
        formula = partial(claim.formula, k1=k1, k2=k2, signs=signs)
        counted = two_sided(gram_of_columns(laws[signs](k1)), gram_of_columns(laws[signs](k2)))
        where = f"k1={k1}, k2={k2}, {'signs' if signs else 'normal'}"
        yield from agreement(counted, formula, (4, 4), k1 * k2, where)
        yield ignores_zeros(formula, (4, 4), (6, 5), k1 * k2)
    for shape, m in LISTED:
        draws = list(claim.draws(shape, m))
        sides = sides_of(draws[0][1])
        below = int(np.prod([k for k in sides if not isinf(k)]))
        written = moments_of_draws(draws, Fraction(below))
        where = f"the library's, shape {shape}, m={m}, k1={sides[0]}, k2={sides[1]}"
        formula = partial(claim.formula, k1=sides[0], k2=sides[1])
        yield from agreement(written, formula, matrix_shape(shape), below, where)


@statement(
    "kronecker.variance",
    paper="beside the paper: two-sided projections",
    method="exact",
    claim=Claim(),
    mutants={
        "the Gaussian's for signs": Claim(_with_signs_as_normal),
        "k1 and k2 swapped": Claim(_sides_swapped),
        "as if its numbers were independent": Claim(_of_the_product_only),
        "one row, k times": Claim(draws=_one_row_repeated),
    },
)
def kronecker_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Var <A X B^T, A Y B^T> = left / k1 + right / k2 + both / (k1 k2), unbiased, for all X and Y of every size."""
    return Verdict.all(_cases(claim, thorough), "identity of polynomials")
