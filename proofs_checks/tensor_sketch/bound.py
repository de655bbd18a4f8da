"""TensorSketch's variance is at most (2c/m^2 + 6/m) |X|^2 |Y|^2: 4/m^2 + 6/m for even m, 2/m^2 + 6/m for odd m.

Decided exactly, for all real matrices, by a certificate. m^2 (bound - Var) = c B1 + m B2 with

    B1 = rows + cols + diagonals + rest           B2 = B1 + 2 rows + asymmetry + whole + 2 diagonals

    rows      = |X|^2 |Y|^2 - |X^T Y|^2  = sum over j, l, i < k of (X_ij Y_kl - X_kj Y_il)^2
    cols      = |X|^2 |Y|^2 - |X Y^T|^2  = sum over i, k, j < l of (X_ij Y_kl - X_il Y_kj)^2
    whole     = |X|^2 |Y|^2 - <X, Y>^2   = sum over u < v of (X_u Y_v - X_v Y_u)^2, over pairs of entries
    asymmetry = 2 (|A|^2 - tr A^2)       = |A - A^T|^2, with A = X^T Y
    diagonals = |diag X^T Y|^2 + |diag X Y^T|^2
    rest      = sum of (X_ij Y_il)^2 over j != l, and of (X_ij Y_kj)^2 over i != k

Each line is a sum of squares, so the difference is nonnegative whatever X and Y; that it is the difference is an
identity of biquadratic forms, checked against the variance counted over every hash (`biquadratic`). A factor that
is too small is refuted by a matrix of ones of a size where the exact variance exceeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch

from ..count_sketch.bound import exact
from ..machinery.biquadratic import disagreement, points
from ..machinery.moments import every_hash, tensor_sketch_moments
from ..machinery.statement import Verdict, statement

Array = np.ndarray


def factor(m: int) -> float:
    """What the library says of a TensorSketch of width m, as its bounds and its error bars have it."""
    side = CountSketch(h=np.zeros(1, dtype=np.int64), s=np.ones(1, dtype=np.int8), m=m)
    return bounds.worst_case(TensorSketch(side, side))


def certificate(X: Array, Y: Array, m: int) -> Any:
    """m^2 times (2c/m^2 + 6/m) |X|^2 |Y|^2 - Var, as a sum of squares."""
    Xt, Yt = X.swapaxes(-1, -2), Y.swapaxes(-1, -2)
    A = Xt @ Y
    rows, cols = minors(Xt, Yt), minors(X, Y)
    diagonals = ((X * Y).sum(-1) ** 2).sum(-1) + ((X * Y).sum(-2) ** 2).sum(-1)
    rest = off_diagonal(X, Y) + off_diagonal(Xt, Yt)
    flat = X.reshape(*X.shape[:-2], 1, -1), Y.reshape(*Y.shape[:-2], 1, -1)
    first = rows + cols + diagonals + rest
    second = first + 2 * rows + ((A - A.swapaxes(-1, -2)) ** 2).sum((-1, -2)) + minors(*flat) + 2 * diagonals
    return bounds.coincidence(m) * first + m * second


def minors(X: Array, Y: Array) -> Any:
    """Sum over rows i of X, rows k of Y and j < l of (X_ij Y_kl - X_il Y_kj)^2; nothing is cancelled."""
    total: Any = 0
    for j in range(X.shape[-1] - 1):
        left = X[..., :, None, j, None] * Y[..., None, :, j + 1 :]
        right = X[..., :, None, j + 1 :] * Y[..., None, :, j, None]
        total = total + ((left - right) ** 2).sum((-1, -2, -3))
    return total


def off_diagonal(X: Array, Y: Array) -> Any:
    """Sum over rows and j != l of (X_ij Y_il)^2."""
    products = (X[..., :, None] * Y[..., None, :]) ** 2
    return (products * (1 - np.eye(X.shape[-1], dtype=np.int64))).sum((-1, -2, -3))


@cache
def _terms_of_ones(d: int) -> tuple[int, int]:
    ones = np.ones((d, d), dtype=np.int64)
    first, second = bounds.tensor_sketch_terms(ones, ones)
    return int(first), int(second)


def of_ones(d: int, m: int) -> Fraction:
    """Var / (|X|^2 |Y|^2) for X = Y = a d x d matrix of ones."""
    first, second = _terms_of_ones(d)
    return Fraction(bounds.coincidence(m) * first + m * second, m * m * d**4)


def _cases(claim: Callable[[int], float], thorough: bool) -> Iterator[tuple[Any, str]]:
    sizes = (1, 2, 3, 5, 16, 64, 128)
    for m in range(1, 33 if thorough else 17):
        c, f = bounds.coincidence(m), exact(claim(m), m)

        def variance(X: Array, Y: Array, m: int = m, c: int = c) -> Any:  # as the certificate has it
            norms = (X * X).sum((-1, -2)) * (Y * Y).sum((-1, -2))
            return ((2 * c + 6 * m) * norms - certificate(X, Y, m)) / (m * m)

        family = every_hash(4, m)
        form = tensor_sketch_moments(family, family, m).variance
        text = disagreement(form, variance, (4, 4), points(16, m), points(16))
        yield not text, f"m={m}: the certificate is not m^2 (bound - Var): {text}"
        for d in sizes:
            ratio = of_ones(d, m)
            yield ratio <= f, f"m={m}, X=Y=ones({d}, {d}): Var/|X|^2|Y|^2 = {float(ratio):.4f} > {float(f):.4f}"
        yield factor(m) == bounds.tensor_sketch_factor(m), f"m={m}: a TensorSketch says another factor than its bounds"
        yield f * m * m == 2 * c + 6 * m, f"m={m}: the certificate proves 2c/m^2 + 6/m, the claim is {f}"


@statement(
    "tensor_sketch.bound",
    paper="Appendix on sketches, TensorSketch lemma, bound",
    method="exact",
    claim=factor,
    mutants={
        "8/m, which is larger than need be": lambda m: 8 / m,
        "2/m^2 + 6/m for even m too": lambda m: 2 / m**2 + 6 / m,
        "2c/m^2 + 5/m": lambda m: 2 * bounds.coincidence(m) / m**2 + 5 / m,
        "CountSketch's 2/m": lambda m: 2 / m,
    },
)
def tensor_sketch_bound_holds(claim: Callable[[int], float], thorough: bool) -> Verdict:
    """Var <T X, T Y> <= (2c/m^2 + 6/m) |X|^2 |Y|^2 for all real X, Y of any size; 4/m^2 + 6/m for even m."""
    return Verdict.all(_cases(claim, thorough), "by a sum of squares")
