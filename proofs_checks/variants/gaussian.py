"""The dense Gaussian projection is unbiased, with Var = (|x|^2 |y|^2 + (x.y)^2) / m, at most (2/m) |x|^2 |y|^2.

Hypotheses: the m x D entries are independent N(0, 1) / sqrt(m).

Decided exactly, for all real x and y: the second moment takes no more than fourth moments of the entries, so three
points for each entry give it in integers (`projections`), and the two sides are one polynomial. The library's class
is written out for every table of such points. That the bound holds is a certificate,

    2 |x|^2 |y|^2 - m Var = sum over i < j of (x_i y_j - x_j y_i)^2

which is zero exactly where y is a multiple of x: there the bound is attained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from sdi.sketch.shipped.gaussian import GaussianSketch

from ..machinery.agreement import Case, Factor, Shape, agreement, factor_of, ignores_zeros, smallest_factor
from ..machinery.biquadratic import disagreement, points
from ..machinery.projections import Law, gaussian_column, gram_of_columns, moments_of_draws
from ..machinery.statement import Verdict, statement
from ..tensor_sketch.bound import minors

Array = np.ndarray
LISTED: tuple[tuple[Shape, int], ...] = (((3,), 1), ((2,), 2), ((2, 2), 1))


def gaussian_variance(x: Array, y: Array, m: int) -> Any:
    """Exact variance of <S x, S y>; m times it is that of the product of two normal numbers."""
    return ((x * x).sum(-1) * (y * y).sum(-1) + (x * y).sum(-1) ** 2) / m


def by_three_points(shape: Shape, m: int) -> Iterator[tuple[Fraction, GaussianSketch]]:
    """The library's class with every table of -sqrt 3, 0 and sqrt 3."""
    count = m * prod(shape)
    for chosen in product((-1, 0, 1), repeat=count):
        table = 3**0.5 * np.array(chosen, dtype=np.float64).reshape(m, -1)
        yield Fraction(4 ** chosen.count(0), 6**count), GaussianSketch(table, shape)


class Claim(NamedTuple):
    formula: Callable[..., Any] = gaussian_variance
    column: Callable[[int], Law] = gaussian_column


def _without_cross_term(x: Array, y: Array, m: int) -> Any:
    return (x * x).sum(-1) * (y * y).sum(-1) / m


def _as_for_signs(x: Array, y: Array, m: int) -> Any:
    return gaussian_variance(x, y, m) - 2 * (x * x * y * y).sum(-1) / m


def _one_row_repeated(m: int) -> Law:
    one = gaussian_column(1)
    return Law(np.repeat(one.vectors, m, axis=1), one.weights, Fraction(m, 3))


def _cases(claim: Claim, thorough: bool) -> Iterator[Case]:
    for m in range(1, 7 if thorough else 6):
        formula = partial(claim.formula, m=m)
        yield from agreement(gram_of_columns(claim.column(m)).moments, formula, (4,), m, f"m={m}")
        yield ignores_zeros(formula, (4,), (9,), m)
    for shape, m in LISTED:
        written = moments_of_draws(by_three_points(shape, m), Fraction(m, 3))
        formula = partial(claim.formula, m=m)
        yield from agreement(written, formula, (prod(shape),), m, f"the library's, shape {shape}, m={m}")


@statement(
    "gaussian.variance",
    paper="beside the paper: dense projections",
    method="exact",
    claim=Claim(),
    mutants={
        "drops the cross term": Claim(_without_cross_term),
        "the diagonal taken out, as for signs": Claim(_as_for_signs),
        "one row, m times": Claim(column=_one_row_repeated),
    },
)
def gaussian_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Var <S x, S y> = (|x|^2 |y|^2 + (x.y)^2) / m for a dense Gaussian projection, unbiased, for every x, y, D."""
    return Verdict.all(_cases(claim, thorough), "identity of polynomials")


def _bound_cases(claim: Factor, thorough: bool) -> Iterator[Case]:
    for m in range(1, 6):

        def variance(x: Array, y: Array, m: int = m) -> Any:  # as the certificate has it
            norms = (x * x).sum(-1) * (y * y).sum(-1)
            return (2 * norms - minors(x[..., None, :], y[..., None, :])) / m

        form = gram_of_columns(gaussian_column(m)).moments.variance
        text = disagreement(form, variance, (4,), points(4, m), points(4))
        yield not text, f"m={m}: the certificate is not 2 |x|^2 |y|^2 - m Var: {text}"
    for m in (1, 2, 3, 16, 40):
        for shape in ((60,), (6, 10)):
            at = Fraction(int(gaussian_variance(m * np.ones(1), np.ones(1), m)), m * m)
            yield from smallest_factor(claim(shape, m), Fraction(2, m), [("x = y", at)], f"shape {shape}, m={m}")


@statement(
    "gaussian.bound",
    paper="beside the paper: dense projections",
    method="exact",
    claim=factor_of(GaussianSketch),
    mutants={"1/m": lambda shape, m: 1 / m, "2/m - 1/m^2": lambda shape, m: 2 / m - 1 / m**2},
)
def gaussian_bound_is_attained(claim: Factor, thorough: bool) -> Verdict:
    """Var <S x, S y> <= (2/m) |x|^2 |y|^2 for a dense Gaussian projection, with equality where y is a multiple of x."""
    return Verdict.all(_bound_cases(claim, thorough), "by a sum of squares")
