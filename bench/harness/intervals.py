"""95% intervals by Student's t: of a mean over seeds, and of an exponent fitted to a few points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit


class Interval(NamedTuple):
    value: float
    half: float  # infinite where too few points show no spread

    @property
    def low(self) -> float:
        return self.value - self.half

    @property
    def high(self) -> float:
        return self.value + self.half

    def __str__(self) -> str:
        value = round(self.value, 3) + 0.0  # never "-0.000"
        return f"{value:.3f} ± {self.half:.3f}" if np.isfinite(self.half) else f"{value:.3f}"


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean of independent values, with its 95% interval.

    >>> mean_interval([1.0, 2.0, 3.0]).value
    2.0
    """
    x = np.asarray(values, dtype=np.float64)
    half = float(stdtrit(len(x) - 1, 0.975) * x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else float("inf")
    return Interval(float(x.mean()), half)


def exponent(x: Sequence[float], y: Sequence[float]) -> Interval:
    """k of y ~ x^k by least squares on logarithms; the interval is of the points' scatter about the line.

    >>> round(exponent([1, 4, 16], [1.0, 0.5, 0.25]).value, 6)
    -0.5
    """
    if len(x) != len(y) or len(set(x)) < 2 or min(*x, *y) <= 0:
        raise ValueError(f"an exponent needs two different x and all values above 0, got x={list(x)}, y={list(y)}")
    u, v = np.log(x), np.log(y)
    u = u - u.mean()
    k = float(u @ v / (u @ u))
    if len(u) < 3:
        return Interval(k, float("inf"))
    rest = v - v.mean() - k * u
    return Interval(k, float(stdtrit(len(u) - 2, 0.975) * np.sqrt(rest @ rest / (len(u) - 2) / (u @ u))))
