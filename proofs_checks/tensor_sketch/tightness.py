"""2c/m^2 + 6/m is the smallest factor that bounds TensorSketch's variance at every size, and no size attains it.

Approached: for X = Y = ones(d, d) the exact variance over |X|^2 |Y|^2 falls short of the factor by
(c/m^2)(4/d - 2/d^2) + (1/m)(8/d - 2/d^2), which is positive and at most (4c/m^2 + 8/m) / d. So every smaller
factor fails at some d, and for odd m the even case's 4/m^2 + 6/m is larger than it need be.

Never attained, for nonzero X and Y: the certificate of `tensor_sketch_bound` holds |X|^2 |Y|^2 - <X, Y>^2, which is
zero only if Y = a X with a != 0, and sum over columns of (X^T Y)_jj^2, which is then a^2 sum_j |X_j|^4 > 0. The
argument covers all matrices; the check runs through all small integer ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from sdi.sketch import bounds

from ..count_sketch.bound import exact
from ..machinery.statement import Verdict, statement
from .bound import certificate, of_ones

Array = np.ndarray
Factor = Callable[[int], float]


def _approached(claim: Factor, thorough: bool) -> Iterator[tuple[Any, str]]:
    for m in [*range(1, 17), 31, 64, 127, 2048, *([4095, 4096] if thorough else [])]:
        c = bounds.coincidence(m)
        # the float64 of a claim is off by far less than the gaps measured here, down to d = 512
        f = exact(claim(m), m)
        for d in [1, 2, 3, 4, 8, 32, 128, 256, *([512] if thorough else [])]:
            gap, most = f - of_ones(d, m), (Fraction(4 * c, m * m) + Fraction(8, m)) / d
            yield (
                0 < gap <= most,
                f"m={m}, d={d}: {f} less Var/|X|^2|Y|^2 is {float(gap):.6f}, not in (0, {float(most):.6f}]",
            )


@statement(
    "tightness.approached",
    paper="Appendix on sketches, TensorSketch lemma, tightness",
    method="exact",
    claim=bounds.tensor_sketch_factor,
    mutants={
        "4/m^2 + 6/m for odd m too": lambda m: 4 / m**2 + 6 / m,
        "2/m^2 + 6/m for even m too": lambda m: 2 / m**2 + 6 / m,
        "8/m": lambda m: 8 / m,
    },
)
def bound_is_approached(claim: Factor, thorough: bool) -> Verdict:
    """The factor 2c/m^2 + 6/m is approached like 1/d by matrices of ones: no smaller one holds at every size."""
    return Verdict.all(_approached(claim, thorough))


def _at_two_by_two(m: int) -> float:
    return float(of_ones(2, m))


def _strict(claim: Factor, thorough: bool) -> Iterator[tuple[Any, str]]:
    for (d, d2), largest in [((2, 2), 1), ((1, 3), 2), *([((2, 3), 1)] if thorough else [])]:
        X = np.array(list(product(range(-largest, largest + 1), repeat=d * d2))).reshape(-1, d, d2)
        X = X[(X != 0).any((1, 2))]
        norms = (X * X).sum((1, 2))
        for m in (1, 2, 3, 4, 8, 9):
            f = exact(claim(m), m)
            whole = certificate(X[:, None], X[None], m)
            certified = 2 * bounds.coincidence(m) + 6 * m
            room = (f * m * m - certified).numerator * norms[:, None] * norms + whole * (f * m * m).denominator
            at = np.argwhere(room <= 0)
            text = f"X={X[at[0][0]].tolist()}, Y={X[at[0][1]].tolist()}" if len(at) else ""
            yield not len(at), f"m={m}: the variance reaches {f} |X|^2 |Y|^2 at {text}"


@statement(
    "tightness.never_attained",
    paper="Proof of the stepwise lemma, remark on tightness",
    method="exact",
    claim=bounds.tensor_sketch_factor,
    mutants={"the value at 2 x 2 ones": _at_two_by_two},
)
def bound_is_never_attained(claim: Factor, thorough: bool) -> Verdict:
    """Var <T X, T Y> < (2c/m^2 + 6/m) |X|^2 |Y|^2 strictly, for all nonzero X and Y of any finite size."""
    return Verdict.all(_strict(claim, thorough), "every small integer matrix; the docstring argues all others")
