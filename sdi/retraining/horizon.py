"""Smoothness: does the derivative through training predict what small real changes do, and how far back does it?

Training need not be smooth in the weights of examples: across a sudden change of what is learned, derivatives grow
without bound and predict nothing. So a few groups of examples are left out, for real, and compared.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

ENOUGH = 0.9  # agreement from which the derivative is believed
Array = np.ndarray


def predicted_effects(derivative: Float[Array, "n q slots"], weights: Float[Array, "R n"]) -> Float[Array, "R q slots"]:
    """What the derivative by examples' weights says of runs with these weights, to first order.

    derivative: of each query's slot by each example's weight. weights: of examples in each run; 1 is no change.
    """
    return np.einsum("rn,nqt->rqt", weights - 1, derivative)


def agreement(predicted: Float[Array, "R q slots"], real: Float[Array, "R q slots"], noise: float = 0.0) -> float:
    """The cosine between predicted and real effects in the slot where it is least, of those that have effects.

    1 if every prediction is right up to a factor, about 0 if predictions say nothing of one of the slots: a mean over
    slots would hide it.

    noise: effects up to this size are none.

    >>> x = np.random.default_rng(0).normal(size=(4, 3, 2))
    >>> round(agreement(x, x), 6), agreement(x, -x) < -0.99
    (1.0, True)
    """
    alive = np.abs(real).max(axis=(0, 1)) > noise
    if not alive.any():
        return 0.0
    p, r = _unit(predicted[..., alive]), _unit(real[..., alive])
    return float((p * r).sum(axis=(0, 1)).min())


def _unit(x: Float[Array, "R q slots"]) -> Float[Array, "R q slots"]:
    """Every slot's effects with length 1, or 0; however large they are."""
    most = np.abs(x).max(axis=(0, 1))
    x = x / np.where(most > 0, most, 1.0)
    size = np.sqrt((x**2).sum(axis=(0, 1)))
    return x / np.where(size > 0, size, 1.0)


def metasmoothness(half: Float[Array, "R q slots"], full: Float[Array, "R q slots"]) -> float:
    """How straight training answers: do the first and the second half of leaving a group out push the same way?

    half, full: the effects of leaving groups out by half, and wholly. Returned is the sum over all effects of
    |first half| with the sign of its product with the second half, divided by the sum of |first half|: 1 if every
    second push continues the first, about 0 if it is a coin's toss.

    >>> metasmoothness(np.ones((2, 1, 1)), np.full((2, 1, 1), 2.0))
    1.0
    """
    second = full - half
    size = np.abs(half).sum()
    return float((np.abs(half) * np.sign(half) * np.sign(second)).sum() / size) if size else 0.0


@dataclass(frozen=True)
class Horizon:
    """How well the derivative predicts small real changes through windows of the last updates, shortest first."""

    windows: tuple[int, ...]
    agreements: tuple[float, ...]  # of each window that was tried
    growth: tuple[float, ...]  # how many times longer adjoints are at the beginning of each window than at the end

    @property
    def smooth(self) -> int:
        """The smooth horizon: the longest window up to which every agreement is at least 0.9; 0 if none is."""
        good = 0
        for window, value in zip(self.windows, self.agreements, strict=True):
            if value < ENOUGH:
                break
            good = window
        return good

    def __str__(self) -> str:
        tried = ", ".join(f"{w}: {a:.2f}" for w, a in zip(self.windows, self.agreements, strict=True))
        return f"smooth horizon {self.smooth} updates (agreement with small real changes by window: {tried})"
