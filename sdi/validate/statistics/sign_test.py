"""Do two things vary together? An exact answer that needs no moments and no claim.

The difference of two draws of one sketch is as likely as its negative. So for independent sketches the product of two
such differences is as often positive as negative, whatever its tails: its signs are fair coins. By Hoeffding's
inequality, the surplus of one sign over the other among N products reaches sqrt(2 log(2 / alpha) / N) with probability
at most alpha.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, sqrt

import numpy as np
from jaxtyping import Float

from sdi.validate.statistics.mean_test import COARSEST, POWER

Array = np.ndarray


@dataclass(frozen=True)
class SignTest:
    """What the signs of N numbers say about their symmetry."""

    rejected: bool
    positive: float  # share of the numbers
    negative: float
    resolution: float  # a surplus of this size is found with probability POWER


def signs_are_fair(z: Float[Array, "N"], alpha: float) -> SignTest:
    """Test that z and -z are equally likely, for independent numbers; wrong with probability at most alpha.

    >>> z = np.random.default_rng(0).standard_normal(400)
    >>> signs_are_fair(z, alpha=1e-6).rejected, signs_are_fair(z + 0.5, alpha=1e-6).rejected
    (False, True)
    """
    positive, negative = float((z > 0).mean()), float((z < 0).mean())
    limit = sqrt(2 * log(2 / alpha) / len(z))
    return SignTest(abs(positive - negative) >= limit, positive, negative, limit + sqrt(-2 * log(1 - POWER) / len(z)))


def products_needed(alpha: float, surplus: float = COARSEST) -> int:
    """How many show such a surplus.

    >>> products_needed(1e-6)
    284
    """
    return ceil(2 * (sqrt(log(2 / alpha)) + sqrt(-log(1 - POWER))) ** 2 / surplus**2)
