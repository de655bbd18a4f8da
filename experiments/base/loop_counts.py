"""draw_loops: a random number of loop steps for a batch of training, Poisson log-normal."""

from __future__ import annotations

import math

import numpy as np


def draw_loops(rng: np.random.Generator, mean: float, spread: float, most: int) -> int:
    """1 + Poisson of a log-normal rate, at most `most`.

    rng: the source of random numbers; two are drawn. mean: of the rate. spread: sigma of the rate's logarithm.
    most: larger numbers are cut to it.

    >>> draw_loops(np.random.default_rng(0), mean=4.0, spread=0.5, most=16)
    2
    """
    log_rate = rng.normal(math.log(mean) - spread**2 / 2, spread)
    return int(min(most, 1 + rng.poisson(math.exp(log_rate))))
