"""Sparse Johnson-Lindenstrauss: the variance is CountSketch's, whatever the number s of non-zeros in a column.

Hypotheses: a column has signs / sqrt(s) in s different rows of m, every set of rows as likely as the others; columns
are independent. Then a column has norm 1, and two columns' product c has E c = 0 and E c^2 = (1/s^2) E (rows in
common) = (1/s^2) (s^2/m) = 1/m: s cancels. It is felt in the tails only. Rows drawn with replacement would break this:
a column's norm is then random, and the variance no longer vanishes at x = y = e_i.

Decided exactly, for all real x and y: from the moments of a column, for every s <= m <= 6 (`projections`), as
polynomials; and from the library's class, written out for every choice of rows and signs. The bound is that of
`count_sketch_bound`, by its certificate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.shipped.sparse import SparseSketch

from ..machinery.agreement import Case, Factor, Shape, agreement, factor_of, ignores_zeros, smallest_factor
from ..machinery.moments import Moments, all_buckets, all_signs
from ..machinery.projections import Law, gram_of_columns, moments_of_draws, sparse_column
from ..machinery.statement import Verdict, statement
from .gaussian import gaussian_variance
from .rademacher import two_over_m

Array = np.ndarray
LISTED: tuple[tuple[Shape, int, int], ...] = (((4,), 2, 1), ((4,), 2, 2), ((2,), 3, 2), ((2,), 4, 2), ((1, 3), 2, 2))


def of_class(shape: Shape, m: int, s: int) -> Iterable[Any]:
    return SparseSketch.with_nonzeros(s).enumerate_all(shape, m)


def sparse_variance(x: Array, y: Array, m: int, s: int) -> Any:
    """CountSketch's: s is not in it."""
    return bounds.count_sketch_variance(x, y, m)


class Claim(NamedTuple):
    formula: Callable[..., Any] = sparse_variance
    column: Callable[[int, int], Law] = sparse_column
    draws: Callable[[Shape, int, int], Iterable[Any]] = of_class


def _over_s(x: Array, y: Array, m: int, s: int) -> Any:
    return bounds.count_sketch_variance(x, y, m) / s


def _with_replacement(m: int, s: int) -> Law:
    """The s rows of a column need not be different."""
    vectors = []
    for rows, signs in product(all_buckets(s, m), all_signs(s)):
        column = np.zeros(m, dtype=np.int64)
        np.add.at(column, rows, signs)
        vectors.append(column)
    return Law(np.array(vectors), np.ones(len(vectors), dtype=np.int64), Fraction(s))


def _one_sign_per_column(shape: Shape, m: int, s: int) -> Iterator[tuple[Fraction, SparseSketch]]:
    for probability, sketch in of_class(shape, m, s):
        yield probability, SparseSketch(sketch.rows, np.repeat(sketch.signs[:, :1], s, axis=1), m, shape)


def _cases(claim: Claim, thorough: bool) -> Iterator[Case]:
    most = 7 if thorough else 6
    for m, s in ((a, b) for a in range(1, most + 1) for b in range(1, a + 1)):
        formula = partial(claim.formula, m=m, s=s)
        yield from agreement(gram_of_columns(claim.column(m, s)).moments, formula, (4,), m, f"m={m}, s={s}")
        yield ignores_zeros(formula, (4,), (9,), m)
    for shape, m, s in LISTED:
        written = moments_of_draws(claim.draws(shape, m, s), Fraction(s))
        where = f"the library's, shape {shape}, m={m}, s={s}"
        yield from agreement(written, partial(claim.formula, m=m, s=s), (prod(shape),), m, where)


@statement(
    "sparse.variance",
    paper="beside the paper: sparse projections",
    method="exact",
    claim=Claim(),
    mutants={
        "smaller for larger s": Claim(_over_s),
        "the Gaussian's": Claim(lambda x, y, m, s: gaussian_variance(x, y, m)),
        "rows drawn with replacement": Claim(column=_with_replacement),
        "one sign for a whole column": Claim(draws=_one_sign_per_column),
    },
)
def sparse_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Sparse projections have Var = (|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2) / m for every s; unbiased."""
    return Verdict.all(_cases(claim, thorough), "identity of polynomials")


def _moments(m: int, s: int) -> Moments:
    return gram_of_columns(sparse_column(m, s)).moments


def _bound_cases(claim: Factor, thorough: bool) -> Iterator[Case]:
    for s in (1, 2, 3):
        yield from two_over_m(partial(_moments, s=s), claim, range(s, 6))
    for s in (1, 2, 8):
        claimed = factor_of(SparseSketch.with_nonzeros(s))((20, 30), 16)
        yield from smallest_factor(claimed, Fraction(2, 16), [], f"s={s}")


@statement(
    "sparse.bound",
    paper="beside the paper: sparse projections",
    method="exact",
    claim=factor_of(SparseSketch),
    mutants={"1/m": lambda shape, m: 1 / m, "2/m - 1/(16 m)": lambda shape, m: 2 / m - 1 / (16 * m)},
)
def sparse_bound_holds(claim: Factor, thorough: bool) -> Verdict:
    """Var <S x, S y> <= (2/m) |x|^2 |y|^2 for sparse projections with any s, the smallest factor for every size."""
    return Verdict.all(_bound_cases(claim, thorough), "by CountSketch's sum of squares")
