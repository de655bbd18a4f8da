"""Is a variance at most what is claimed? An exact answer for any tails, by betting.

W = (Z_1 - Z_2)^2 / 2 of two independent draws is never negative and has mean Var Z, whatever the mean of Z is. Whoever
believes Var Z <= claim must offer W / claim at the price 1: a gambler who stakes the share l of his capital on it has
prod(1 + l (W / claim - 1)) in the end, on average at most what he began with. So he ever has 1 / alpha times as much
with probability at most alpha (Ville). The test plays several l at once, an equal part of the capital on each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np
from jaxtyping import Float

Array = np.ndarray
ROUNDING = 1e-9
STAKES = np.array([0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 0.95])


@dataclass(frozen=True)
class VarianceTest:
    """What N numbers say about their variance."""

    rejected: bool
    variance: float  # as measured
    least: float  # any claim below this would have been rejected


def variance_is_at_most(claim: float, z: Float[Array, "N"], alpha: float) -> VarianceTest:
    """Test Var Z <= claim for independent numbers z; wrong with probability at most alpha.

    >>> z = np.random.default_rng(0).standard_normal(1000)
    >>> variance_is_at_most(1.0, z, alpha=1e-6).rejected, variance_is_at_most(0.6, z, alpha=1e-6).rejected
    (False, True)
    """
    z = np.asarray(z, dtype=np.float64)
    pairs = len(z) // 2
    w = (z[:pairs] - z[pairs : 2 * pairs]) ** 2 / 2
    w[w <= (ROUNDING * np.abs(z).max(initial=0.0)) ** 2] = 0.0
    least = _least(w, alpha)
    return VarianceTest(claim < least, float(z.var()), least)


def mean_is_at_most(claim: float, w: Float[Array, "N"], alpha: float) -> VarianceTest:
    """The same for numbers w >= 0 whose mean is the variance in question: squares about a mean that is known.

    >>> w = np.random.default_rng(0).standard_normal(1000) ** 2
    >>> mean_is_at_most(1.0, w, alpha=1e-6).rejected, mean_is_at_most(0.6, w, alpha=1e-6).rejected
    (False, True)
    """
    w = np.where(w <= ROUNDING**2, 0.0, w)
    least = _least(w, alpha)
    return VarianceTest(claim < least, float(w.mean()), least)


def _least(w: Float[Array, "pairs"], alpha: float) -> float:
    """The claim at which the capital just reaches 1 / alpha: it falls as the claim rises, so bisection finds it."""
    if not w.any():
        return 0.0
    low, high = 0.0, float(w.max())
    for _ in range(40):
        middle = (low + high) / 2
        if _log_capital(w / middle) >= log(1 / alpha):
            low = middle
        else:
            high = middle
    return low


def _log_capital(gains: Float[Array, "pairs"]) -> float:
    """The largest log of the whole capital at any time; the ways of staking are added up."""
    each = np.cumsum(np.log1p(STAKES[:, None] * (gains - 1)), axis=1)
    top = each.max(axis=0)
    return float((top + np.log(np.exp(each - top).mean(axis=0))).max())
