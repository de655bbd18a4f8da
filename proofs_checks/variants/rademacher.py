"""The dense projection by signs has CountSketch's variance: (|x|^2 |y|^2 + (x.y)^2 - 2 sum x_i^2 y_i^2) / m.

Hypotheses: the m x D entries are independent signs / sqrt(m). At most (2/m) |x|^2 |y|^2, by the certificate of
`count_sketch_bound`; x = y = ones(D) has (2 - 2/D) / m, so no smaller factor holds at every size.

Decided exactly, for all real x and y: from the moments of a column of signs (`projections`), as polynomials; and from
the library's class, written out for every matrix of signs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.shipped.rademacher import RademacherSketch

from ..count_sketch.bound import certified_variance
from ..machinery.agreement import Case, Factor, Shape, agreement, factor_of, ignores_zeros, smallest_factor
from ..machinery.biquadratic import disagreement, points
from ..machinery.moments import Moments
from ..machinery.projections import gram_of_columns, moments_of_draws, sign_column
from ..machinery.statement import Verdict, statement
from .gaussian import gaussian_variance

Array = np.ndarray
LISTED: tuple[tuple[Shape, int], ...] = (((4,), 1), ((4,), 2), ((3,), 3), ((2, 2), 2))


def every(shape: Shape, m: int) -> Iterable[tuple[Fraction, Any]]:
    """Every draw of the library's class."""
    return RademacherSketch.enumerate_all(shape, m)


class Claim(NamedTuple):
    formula: Callable[..., Any] = bounds.count_sketch_variance
    draws: Callable[[Shape, int], Iterable[Any]] = every


def _two_points_in_one(shape: Shape, m: int) -> Iterator[tuple[Fraction, RademacherSketch]]:
    """The first entry's signs are those of the second."""
    for probability, sketch in every(shape, m):
        signs = sketch.signs.copy()
        signs[:, 0] = signs[:, 1]
        yield probability, RademacherSketch(signs, shape)


def _one_row_repeated(shape: Shape, m: int) -> Iterator[tuple[Fraction, RademacherSketch]]:
    for probability, sketch in every(shape, 1):
        yield probability, RademacherSketch(np.repeat(sketch.signs, m, axis=0), shape)


def _cases(claim: Claim, thorough: bool) -> Iterator[Case]:
    for m in range(1, 10 if thorough else 8):
        formula = partial(claim.formula, m=m)
        yield from agreement(gram_of_columns(sign_column(m)).moments, formula, (4,), m, f"m={m}")
        yield ignores_zeros(formula, (4,), (9,), m)
    for shape, m in LISTED:
        written = moments_of_draws(claim.draws(shape, m), Fraction(m))
        where = f"the library's, shape {shape}, m={m}"
        yield from agreement(written, partial(claim.formula, m=m), (prod(shape),), m, where)


@statement(
    "rademacher.variance",
    paper="beside the paper: dense projections",
    method="exact",
    claim=Claim(),
    mutants={
        "the Gaussian's": Claim(gaussian_variance),
        "two columns share their signs": Claim(draws=_two_points_in_one),
        "one row, m times": Claim(draws=_one_row_repeated),
    },
)
def rademacher_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Var <S x, S y> = (|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2) / m for a dense projection by signs, unbiased."""
    return Verdict.all(_cases(claim, thorough), "identity of polynomials")


def two_over_m(moments: Callable[[int], Moments], claim: Factor, widths: Iterable[int]) -> Iterator[Case]:
    """2/m is proven by CountSketch's certificate for these moments, approached by ones, and what is claimed."""
    for m in widths:
        text = disagreement(moments(m).variance, certified_variance(m), (4,), points(4, m), points(4))
        yield not text, f"m={m}: the certificate is not 2 |x|^2 |y|^2 - m Var: {text}"
    for m in (1, 2, 3, 16, 100, 256):
        ones = [(f"x = y = ones({d})", Fraction(2 * d - 2, d * m)) for d in (2, 64, 256)]
        for shape in ((300,), (20, 30)):
            yield from smallest_factor(claim(shape, m), Fraction(2, m), ones, f"shape {shape}, m={m}")


@statement(
    "rademacher.bound",
    paper="beside the paper: dense projections",
    method="exact",
    claim=factor_of(RademacherSketch),
    mutants={"1/m": lambda shape, m: 1 / m, "2/m - 1/(16 m)": lambda shape, m: 2 / m - 1 / (16 * m)},
)
def rademacher_bound_holds(claim: Factor, thorough: bool) -> Verdict:
    """Var <S x, S y> <= (2/m) |x|^2 |y|^2 for a dense projection by signs; no smaller factor holds at every size."""
    return Verdict.all(two_over_m(lambda m: gram_of_columns(sign_column(m)).moments, claim, range(1, 8)))
