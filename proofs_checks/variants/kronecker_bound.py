"""The two-sided projection's worst case is (1 + 2/k1)(1 + 2/k2) - 1 = 2/k1 + 2/k2 + 4/(k1 k2); a kept side has no 2/k.

Decided exactly, for all real matrices, by a certificate. With the sums of squares of `tensor_sketch_bound`

    rows  = |X|^2 |Y|^2 - |X^T Y|^2        cols = |X|^2 |Y|^2 - |X Y^T|^2        whole = |X|^2 |Y|^2 - <X, Y>^2
    trace = |X|^2 |Y|^2 - tr (X^T Y)^2 = rows + the sum over j < l of (A_jl - A_lj)^2, A = X^T Y

the bound less the variance is (cols + trace) / k1 + (rows + trace) / k2 + (rows + cols + whole) / (k1 k2) for normal
entries, and what signs take off the variance (`kronecker`) is a sum of squares, too: the sums over rows and over
columns each hold the one over entries.

Normal entries attain it at every X = Y = u v^T, where Z = |A u|^2 |B v|^2 has Var Z + 1 = (1 + 2/k1)(1 + 2/k2); signs
approach it at matrices of ones. With k1 = k2 = sqrt(m) it is 4/sqrt(m) + 4/m: not of the order 1/m, and from m = 4 on
such matrices have a variance above TensorSketch's bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from math import inf, isinf, isqrt
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.kronecker import KroneckerSketch

from ..machinery.agreement import Case, Factor, Shape, factor_of, smallest_factor
from ..machinery.biquadratic import points
from ..machinery.statement import Verdict, statement
from ..tensor_sketch.bound import minors, off_diagonal
from .kronecker import Side, kronecker_variance, sides_of, terms

Array = np.ndarray


def kronecker_certificate(X: Array, Y: Array, signs: bool) -> tuple[Any, Any, Any]:
    """Sums of squares: what the bound has over the variance, over k1, over k2, and over k1 k2."""
    Xt, Yt = X.swapaxes(-1, -2), Y.swapaxes(-1, -2)
    rows, cols, A = minors(Xt, Yt), minors(X, Y), Xt @ Y
    whole = minors(X.reshape(*X.shape[:-2], 1, -1), Y.reshape(*Y.shape[:-2], 1, -1))
    trace = rows + (np.triu(A - A.swapaxes(-1, -2)) ** 2).sum((-1, -2))
    left, right, both = cols + trace, rows + trace, rows + cols + whole
    if not signs:
        return left, right, both
    diag1, diag2 = (((X * Y).sum(axis) ** 2).sum(-1) for axis in (-1, -2))
    both = both + 2 * (diag1 + diag2 + off_diagonal(X, Y) + off_diagonal(Xt, Yt))
    return left + 2 * diag1, right + 2 * diag2, both


def proven(k1: Side, k2: Side) -> Fraction:
    first, second = (Fraction(0) if isinf(k) else Fraction(2, int(k)) for k in (k1, k2))
    return (1 + first) * (1 + second) - 1


def _of_ones(d: int, d2: int, k1: Side, k2: Side) -> Fraction:
    """Var / |X|^2 |Y|^2 at X = Y = ones(d, d2), for signs: Z is a product of two independent estimates of 1."""
    first, second = (Fraction(0) if isinf(k) else Fraction(2 * n - 2, n * int(k)) for n, k in ((d, k1), (d2, k2)))
    return (1 + first) * (1 + second) - 1


def _certified() -> Iterator[Case]:
    """The certificate is bound less variance, as polynomials, over each of k1, k2 and k1 k2."""
    X, Y = points(16).reshape(-1, 1, 4, 4), points(16).reshape(1, -1, 4, 4)
    norms = (X * X).sum((-1, -2)) * (Y * Y).sum((-1, -2))
    for signs in (False, True):
        parts, squares = terms(X, Y, signs), kronecker_certificate(X, Y, signs)
        for factor, term, square, below in zip((2, 2, 4), parts, squares, ("k1", "k2", "k1 k2"), strict=True):
            same = np.array_equal(factor * norms - term, square)
            yield same, f"{'signs' if signs else 'normal'}: over {below}, the certificate is not the difference"


def _cases(claim: Factor, thorough: bool) -> Iterator[Case]:
    yield from _certified()
    e, one = np.zeros((3, 3), dtype=np.int64), np.ones((3, 3), dtype=np.int64)
    e[0, 0] = 1
    for k1, k2 in ((1, 1), (2, 3), (5, 5), (4, inf)):
        bound = proven(k1, k2)
        for text, X, norm in (("e_00", e, 1), ("ones(3, 3)", one, 81)):
            attained = kronecker_variance(60 * X, X, k1, k2, signs=False) == bound * norm * 60**2
            yield attained, f"normal entries, k1={k1}, k2={k2}: X = Y = {text} does not attain {bound}"
        of_signs = kronecker_variance(60 * one, one, k1, k2) == _of_ones(3, 3, k1, k2) * 81 * 60**2
        yield of_signs, f"signs, k1={k1}, k2={k2}: ones(3, 3) do not have {_of_ones(3, 3, k1, k2)}"
    for shape, m in (((64, 64), 256), ((64, 64), 100), ((500, 40), 60), ((40, 500), 7), ((4, 300), 64), ((300,), 64)):
        sides = sides_of(KroneckerSketch.draw(shape, m, seed=0, name="w"))
        ones = [("ones", _of_ones(*matrix_shape(shape), *sides))]
        yield from smallest_factor(claim(shape, m), proven(*sides), ones, f"shape {shape}, m={m}, sides {sides}")


@statement(
    "kronecker.bound",
    paper="beside the paper: two-sided projections",
    method="exact",
    claim=factor_of(KroneckerSketch),
    mutants={
        "2/m": lambda shape, m: 2 / m,
        "2/k1 + 2/k2, without the product": lambda shape, m: _without_product(shape, m),
        "TensorSketch's": lambda shape, m: bounds.tensor_sketch_factor(m),
    },
)
def kronecker_bound_holds(claim: Factor, thorough: bool) -> Verdict:
    """Var <A X B^T, A Y B^T> <= ((1 + 2/k1)(1 + 2/k2) - 1) |X|^2 |Y|^2, the smallest factor; a kept side has no 2/k."""
    return Verdict.all(_cases(claim, thorough), "by a sum of squares")


def _without_product(shape: Shape, m: int) -> float:
    return sum(2 / k for k in sides_of(KroneckerSketch.draw(shape, m, seed=0, name="w")))


def at_ones(m: int) -> Fraction:
    """Var / |X|^2 |Y|^2 at 1024 x 1024 ones, with the sides that the library draws for them."""
    return _of_ones(1024, 1024, *sides_of(KroneckerSketch.draw((1024, 1024), m, seed=0, name="w")))


def _of_a_vector(m: int) -> Fraction:
    """All m rows on one side."""
    return _of_ones(1024, 1, *sides_of(KroneckerSketch.draw((1024, 1), m, seed=0, name="w")))


@statement(
    "kronecker.not_one_over_m",
    paper="beside the paper: two-sided projections",
    method="exact",
    claim=at_ones,
    mutants={"all m rows on one side": _of_a_vector},
)
def kronecker_exceeds_tensor_sketch(claim: Callable[[int], Fraction], thorough: bool) -> Verdict:
    """With k1 = k2 = sqrt(m) >= 2, ones have a variance above TensorSketch's bound, about 2 sqrt(m) / 3 times it."""
    cases = []
    for m in (k * k for k in (2, 3, 4, 8, 16, 30)):
        ratio = claim(m) / Fraction(bounds.tensor_sketch_factor(m))
        cases.append((ratio > 1, f"m={m}: {float(ratio):.3f} of TensorSketch's bound"))
        least = Fraction(2 * isqrt(m), 3) * Fraction(9, 10)
        cases.append((m < 64 or ratio > least, f"m={m}: {float(ratio):.3f} of TensorSketch's bound, below {least}"))
    return Verdict.all(cases, f"{float(ratio):.1f} times TensorSketch's bound at m={m}")
