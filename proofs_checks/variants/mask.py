"""A random mask is unbiased, with Var = (D - m) / (m (D - 1)) (D |a|^2 - (sum a)^2), a_i = x_i y_i; at most D/m - 1.

Hypotheses: m of the D entries are kept, every set as likely as the others, and scaled by sqrt(D/m). Two given entries
are then both kept with probability m (m - 1) / (D (D - 1)), which is all the second moment asks for.

The bound (D/m - 1) |x|^2 |y|^2 by a certificate: with p = x_i y_j and q = x_j y_i,

    (D - 1) |x|^2 |y|^2 - D |a|^2 + (sum a)^2 = sum over i < j of (D - 2)(p^2 + q^2) + (p + q)^2

It is attained at x = y = e_i. So a mask's worst case grows with D: it relies on gradients that are spread evenly.

Decided exactly, for all real x and y: every mask of the library's class written out, for every m and D up to 6, as
polynomials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from sdi.sketch.shipped.mask import MaskSketch

from ..machinery.agreement import Case, Factor, Shape, agreement, factor_of, smallest_factor
from ..machinery.biquadratic import points
from ..machinery.projections import moments_of_draws
from ..machinery.statement import Verdict, statement

Array = np.ndarray


def mask_variance(x: Array, y: Array, m: int) -> Any:
    """Exact variance of <S x, S y>."""
    D, a = x.shape[-1], x * y
    return (D - m) * (D * (a * a).sum(-1) - a.sum(-1) ** 2) / (m * max(D - 1, 1))


def every(shape: Shape, m: int) -> Iterable[tuple[Fraction, Any]]:
    """Every draw of the library's class."""
    return MaskSketch.enumerate_all(shape, m)


class Claim(NamedTuple):
    formula: Callable[..., Any] = mask_variance
    draws: Callable[[Shape, int], Iterable[Any]] = every


def _with_replacement(x: Array, y: Array, m: int) -> Any:
    D, a = x.shape[-1], x * y
    return (D * (a * a).sum(-1) - a.sum(-1) ** 2) / m


def _each_by_itself(x: Array, y: Array, m: int) -> Any:
    """Every entry kept with probability m / D, whatever becomes of the others."""
    return (x.shape[-1] - m) * ((x * y) ** 2).sum(-1) / m


def _the_first_always(shape: Shape, m: int) -> Iterator[tuple[Fraction, MaskSketch]]:
    """Entry 0 is always among them."""
    for probability, sketch in every(shape, m):
        rest = sketch.index[sketch.index != 0][: m - 1]
        yield probability, MaskSketch(np.append(0, rest), shape)


def _cases(claim: Claim, thorough: bool) -> Iterator[Case]:
    shapes: list[Shape] = [(1,), (2,), (3,), (2, 2), (5,), (2, 3), *([(7,)] if thorough else [])]
    for shape, m in ((of, k) for of in shapes for k in range(1, prod(of) + 1)):
        D = prod(shape)
        moments = moments_of_draws(claim.draws(shape, m), Fraction(m, D))
        where = f"shape {shape}, m={m}"
        yield from agreement(moments, partial(claim.formula, m=m), (D,), m * max(D - 1, 1), where)


@statement(
    "mask.variance",
    paper="beside the paper: random masks",
    method="exact",
    claim=Claim(),
    mutants={
        "as if drawn with replacement": Claim(_with_replacement),
        "as if each entry were kept by itself": Claim(_each_by_itself),
        "one entry is always kept": Claim(draws=_the_first_always),
    },
)
def mask_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Var <S x, S y> = (D - m) / (m (D - 1)) (D sum_i a_i^2 - (sum_i a_i)^2), a = x y, for a random mask; unbiased."""
    return Verdict.all(_cases(claim, thorough), "identity of polynomials")


def _squares(x: Array, y: Array) -> Any:
    """(D - 1) |x|^2 |y|^2 - D |a|^2 + (sum a)^2, as a sum of squares if D >= 2."""
    p = x[..., :, None] * y[..., None, :]
    q = p.swapaxes(-1, -2)
    return np.triu((x.shape[-1] - 2) * (p * p + q * q) + (p + q) ** 2, 1).sum((-1, -2))


def _bound_cases(claim: Factor, thorough: bool) -> Iterator[Case]:
    for D in range(2, 7):
        x, y = points(D)[:, None], points(D)[None]
        a = x * y
        bracket = D * (a * a).sum(-1) - a.sum(-1) ** 2
        same = np.array_equal((D - 1) * (x * x).sum(-1) * (y * y).sum(-1) - bracket, _squares(x, y))
        yield same, f"D={D}: the certificate is not the difference"
    for shape, m in (((300,), 1), ((300,), 64), ((20, 30), 16), ((20, 30), 600), ((1,), 1)):
        D = prod(shape)
        e = np.eye(1, D, dtype=np.int64)[0]
        at = Fraction(int(mask_variance(m * max(D - 1, 1) * e, e, m)), (m * max(D - 1, 1)) ** 2)
        yield from smallest_factor(claim(shape, m), Fraction(D, m) - 1, [("x = y = e_0", at)], f"shape {shape}, m={m}")


@statement(
    "mask.bound",
    paper="beside the paper: random masks",
    method="exact",
    claim=factor_of(MaskSketch),
    mutants={
        "2/m, as for other sketches": lambda shape, m: 2 / m,
        "D/m": lambda shape, m: prod(shape) / m,
        "(D - m) / (m (D - 1))": lambda shape, m: (prod(shape) - m) / (m * max(prod(shape) - 1, 1)),
    },
)
def mask_bound_is_attained(claim: Factor, thorough: bool) -> Verdict:
    """Var <S x, S y> <= (D/m - 1) |x|^2 |y|^2 for a random mask, with equality at x = y = e_i."""
    return Verdict.all(_bound_cases(claim, thorough), "by a sum of squares")
