"""Is the mean of heavy-tailed numbers what it should be? An exact answer, for any sample size and any tails.

    H0: E Z = mu and E (Z - mu)^2 <= variance
    phi(x) = log(1 + x + x^2 / 2) for x >= 0, -phi(-x) otherwise

Since exp(phi(x)) <= 1 + x + x^2 / 2 (Catoni), under H0 the mean of exp(sum phi(l (Z - mu)) - N l^2 variance / 2) is at
most 1 for every l, and likewise for -Z. By Markov's inequality it reaches 2 / alpha with probability at most alpha / 2,
so the test is wrong about a true mean with probability at most alpha: no normal limit, no bound on Z.

The price is that a large `variance` hides a large bias: a test that could not see a bias of COARSEST decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, isfinite, log, sqrt

import numpy as np
from jaxtyping import Float

Array = np.ndarray
ALPHA = 1e-6  # the probability, at most, with which a good sketch fails one statistical property
POWER = 0.99  # the probability with which a bias of `resolution` is found
COARSEST = 0.5  # of |x| |y|: where a larger error could pass unseen, nothing is said to hold


@dataclass(frozen=True)
class MeanTest:
    """What N numbers say about their mean."""

    rejected: bool
    mean: float
    resolution: float  # a bias of this size is found with probability POWER; infinite if no size is certain to be
    claimed: float = 0.0  # variance
    needed: float = 1.0  # draws to ask for, for a resolution of COARSEST

    @property
    def undecided(self) -> str | None:
        """Why it says neither yes nor no; None if it does."""
        if self.rejected or self.resolution <= COARSEST:
            return None
        size = f"{self.resolution:.2g} |x| |y|" if isfinite(self.resolution) else "any size"
        return (
            f"an error of {size} could pass unseen: the claimed variance is {self.claimed:.3g} |x|^2 |y|^2; with "
            f"this claim, it takes {self.needed:,.0f} draws to see one of {COARSEST} |x| |y|"
        )


def mean_is(mu: float, z: Float[Array, "N"], variance: float, alpha: float, times: int = 1) -> MeanTest:
    """Test E Z = mu for independent numbers z of at most this variance; wrong with probability at most alpha.

    times: how many numbers are made, at most, for each draw asked for.

    >>> z = np.random.default_rng(0).standard_normal(400)
    >>> mean_is(0.0, z, 1.0, alpha=1e-6).rejected, mean_is(0.5, z, 1.0, alpha=1e-6).rejected
    (False, True)
    """
    z = np.asarray(z, dtype=np.float64)
    if variance == 0:  # no randomness: the values themselves are the mean, to rounding
        off = np.abs(z - mu) > 1e-9 * max(1.0, abs(mu), np.abs(z).max())  # of |x| |y| = 1: <x, y> may be 0
        return MeanTest(bool(off.any()), float(z.mean()), 0.0)
    needed = log(2 / alpha)
    step = sqrt(2 * needed / (len(z) * variance))
    x = step * (z - mu)
    total = (np.sign(x) * np.log1p(np.abs(x) + x * x / 2)).sum()
    finest, draws = _resolution(len(z), step, needed), ceil(draws_to_see(COARSEST, variance, alpha) / times)
    return MeanTest(bool(abs(total) >= 2 * needed), float(z.mean()), finest, variance, draws)


def draws_to_see(bias: float, variance: float, alpha: float) -> float:
    """The smallest N with a resolution of `bias` or better: `_resolution` read the other way.

    >>> z = np.zeros(int(draws_to_see(0.5, 2.0, alpha=1e-6)))
    >>> mean_is(0.0, z, 2.0, 1e-6).resolution <= 0.5 < mean_is(0.0, z[1:], 2.0, 1e-6).resolution
    True
    """
    if variance == 0:
        return 1.0
    needed = log(2 / alpha)
    asked = 3 * needed - log(1 - POWER)
    b = min(bias, sqrt(asked * variance / needed))  # where the variance is small, the fewest that see anything do
    return float(ceil((asked + needed * b * b / variance) ** 2 * variance / (2 * needed * b * b)))


def _resolution(n: int, step: float, needed: float) -> float:
    """The smallest b with n step b - n step^2 b^2 / 2 >= 3 needed + log(1 / (1 - POWER)).

    exp(-phi(x)) <= 1 - x + x^2 / 2, so with a bias b the sum of phi is below n step b - n step^2 (variance + b^2) / 2 -
    log(1 / beta) with probability at most beta. The test asks for 2 needed, and n step^2 variance / 2 is needed.
    """
    room = 1 - 2 * (3 * needed - log(1 - POWER)) / n
    return (1 - sqrt(room)) / step if room >= 0 and step > 0 else float("inf")
