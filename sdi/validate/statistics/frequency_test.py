"""Do things come up as often as a list says? An exact answer, by betting.

A gambler who believes that other chances are the true ones stakes his capital on the next draw according to what he has
seen so far: a share q for each outcome, paid back at the odds 1 / p that the list offers. If the list is right, he has
on average what he began with, at any time, so he ever has 1 / alpha times as much with probability at most alpha
(Ville). Whatever differs from the list, he learns.
"""

from __future__ import annotations

from math import log

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray


def as_often_as_listed(p: Float[Array, "K"], seen: Int[Array, "N"], alpha: float) -> bool:
    """Test that outcomes 0..K-1 have the chances p, for independent draws; wrong with probability at most alpha.

    >>> coins = np.random.default_rng(0).integers(2, size=3000)
    >>> as_often_as_listed(np.array([0.5, 0.5]), coins, 1e-6), as_often_as_listed(np.array([0.6, 0.4]), coins, 1e-6)
    (True, False)
    """
    if len(p) == 1:
        return True
    before = np.zeros(len(seen))  # how often each draw's outcome had come up before
    for outcome in range(len(p)):
        at = np.flatnonzero(seen == outcome)
        before[at] = np.arange(len(at))
    prior = len(p) / 2  # as if half a draw of each outcome, were they equally likely, had been seen
    q = (before + prior * p[seen]) / (np.arange(len(seen)) + prior)
    return bool(np.cumsum(np.log(q / p[seen])).max(initial=0) < log(1 / alpha))
