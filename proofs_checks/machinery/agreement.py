"""Checks shared by the statements on sketches: a claimed variance, or a claimed factor, against exact moments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np

from .biquadratic import disagreement, points
from .moments import Moments

Array = np.ndarray
Shape = tuple[int, ...]
Formula = Callable[[Array, Array], Any]
Factor = Callable[[Shape, int], float]  # shape, m -> what the library claims
Case = tuple[Any, str]


def agreement(moments: Moments, formula: Formula, shape: Shape, scale: int, where: str) -> Iterator[Case]:
    """The mean is the identity, and the variance is the formula, as polynomials in the entries of X and Y.

    `formula` is called with integer arrays; at multiples of `scale` for X its values must be whole. The points decide
    the identity for a biquadratic formula; random integers guard that it is one.
    """
    yield moments.unbiased, f"{where}: the mean's coefficients are {moments.mean.tolist()} / {moments.mean_denominator}"
    n = prod(shape)
    X, Y = np.random.default_rng(0).integers(-3, 4, (2, 12, n))
    for left, right in ((points(n, scale), points(n)), (scale * X, Y)):
        text = disagreement(moments.variance, formula, shape, left, right)
        yield not text, f"{where}, {text}"


def ignores_zeros(formula: Formula, shape: Shape, larger: Shape, scale: int) -> Case:
    """Zeros around X and Y do not change the formula: so what holds for four indices of each axis holds for all."""
    X, Y = scale * np.random.default_rng(1).integers(-3, 4, (2, 12, *shape))
    padded = np.zeros((2, 12, *larger), dtype=np.int64)
    corner = tuple(slice(big - small, big) for small, big in zip(shape, larger, strict=True))
    for whole, part in zip(padded.reshape(-1, *larger), np.concatenate([X, Y]), strict=True):
        whole[corner] = part
    return np.array_equal(formula(padded[0], padded[1]), formula(X, Y)), "zeros around X and Y change the claim"


def factor_of(sketch: Any) -> Factor:
    """The variance factor that a drawn sketch of this class claims."""

    def claimed(shape: Shape, m: int) -> float:
        return float(sketch.draw(shape, m, seed=0, name="w").variance_factor())

    return claimed


def smallest_factor(
    claimed: float, proven: Fraction, witnesses: Iterable[tuple[str, Fraction]], where: str
) -> Iterator[Case]:
    """The claim is what the certificate proves; a smaller one is refuted by the Var / |X|^2 |Y|^2 of given X and Y."""
    for text, ratio in witnesses:
        yield (
            float(ratio) <= claimed * (1 + 1e-14),
            f"{where}, {text}: Var/|X|^2|Y|^2 = {float(ratio):.6g} > {claimed:.6g}",
        )
    yield (
        abs(claimed - float(proven)) <= 1e-14 * float(proven),
        f"{where}: the certificate proves {float(proven):.6g}, the claim is {claimed:.6g}",
    )
