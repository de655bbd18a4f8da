"""How influence is spread over loop steps: shares, geometric growth against its rivals, alignment across horizons.

A profile is what all training examples together do to each loop step of one query, (q, tau) for q queries. Intervals
are 95%, from a bootstrap over queries. Plain arrays in, plain dictionaries out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
from jaxtyping import Float

Array = np.ndarray
Numbers = dict[str, Any]
LOG_RHO = np.linspace(-4, 4, 3201)
SATURATION = np.geomspace(0.05, 200, 800)  # steps
RIVALS = ("geometric", "linear", "saturating")  # two parameters each, so squares left are comparable
MOST_RHO = float(np.exp(LOG_RHO[-1]))  # the largest that is tried: nearly all in the last step
FEWEST = 4  # steps that tell two-parameter curves apart


def resampled(profiles: Float[Array, "q tau"], draws: int, seed: int) -> Float[Array, "draws tau"]:
    """Mean profiles of queries drawn with replacement. The same seed draws the same queries for every horizon."""
    many = len(profiles)
    counts = np.random.default_rng(seed).multinomial(many, np.full(many, 1 / many), draws)
    return counts @ profiles / many


def spread_over_steps(profiles: Float[Array, "q tau"], draws: int, seed: int) -> Numbers:
    """Signed share of each step and its running sum, the last step's with its interval, and how much cancels.

    kept: |sum of the steps| / sum of |step|; 1 if all have one sign, near 0 if shares are quotients of noise.
    """
    mean, drawn = profiles.mean(axis=0), resampled(profiles, draws, seed)
    if mean.sum() == 0:
        return {"share": None, "cumulative": None, "last": None, "kept": 0.0}
    share = mean / mean.sum()
    low, high = np.percentile(_shares(drawn)[:, -1], [2.5, 97.5]).tolist()
    return {
        "share": share.tolist(),
        "cumulative": share.cumsum().tolist(),
        "last": {"share": float(share[-1]), "low": low, "high": high},
        "kept": float(abs(mean.sum()) / np.abs(mean).sum()),
    }


def fit_growth(profiles: Float[Array, "q tau"], draws: int, seed: int) -> Numbers:
    """The factor rho of geometric growth from step to step, and whether that curve is nearer than its rivals.

    Least squares to the mean profile y_t of a rho^t, of a + b t, and of a (1 - exp(-t / c)). `left`: the share of
    squares that each leaves. `best`: the one that leaves least; `sure`: the share of bootstrap draws in which it is.
    All are None below 4 steps, where curves of two parameters hardly differ, or for a profile of zeros.
    """
    mean, tau = profiles.mean(axis=0), profiles.shape[1]
    if tau < FEWEST or not mean.any():
        return {"rho": None, "low": None, "high": None, "left": None, "best": None, "sure": None}
    rho, left = _fits(mean[None])
    rhos, lefts = _fits(resampled(profiles, draws, seed))
    low, high = np.percentile(rhos, [2.5, 97.5]).tolist()
    best = int(left[0].argmin())
    return {
        "rho": float(rho[0]),
        "low": low,
        "high": high,
        "left": dict(zip(RIVALS, left[0].tolist(), strict=True)),
        "best": RIVALS[best],
        "sure": float((lefts.argmin(axis=1) == best).mean()),
    }


def _fits(y: Float[Array, "k tau"]) -> tuple[Float[Array, "k"], Float[Array, "k 3"]]:
    """rho of each row, and the share of squares that geometric, linear and saturating curves leave."""
    t = np.arange(1, y.shape[1] + 1)
    whole = np.maximum((y**2).sum(axis=1), np.finfo(float).tiny)
    of_rho = _best(y, np.exp(LOG_RHO[:, None] * (t - t.mean())))
    of_c = _best(y, 1 - np.exp(-t / SATURATION[:, None]))
    basis = np.linalg.qr(np.stack([np.ones(len(t)), t], axis=1))[0]
    linear = ((y @ basis) ** 2).sum(axis=1)
    explained = np.stack([of_rho[1], linear, of_c[1]], axis=1)
    return np.exp(LOG_RHO[of_rho[0]]), 1 - explained / whole[:, None]


def left_by_jump(share: Sequence[float]) -> float:
    """The share of squares that a profile with everything in its last step leaves: a rival without any shape.

    share: of each step.

    >>> round(left_by_jump([0.0, 0.6, 0.8]), 9)
    0.36
    """
    y = np.asarray(share)
    return float(_left(y[None], np.eye(len(y))[-1])[0])


def left_by(profiles: Float[Array, "q tau"], curve: Float[Array, "tau"], draws: int, seed: int) -> Numbers:
    """The share of squares of the mean profile that a given curve leaves, scaled freely, with its interval.

    A curve with one parameter, its scale: it is told beforehand, by something else than the profile.
    """
    mean = profiles.mean(axis=0)
    if not mean.any() or not np.any(curve):
        return {"share": None, "low": None, "high": None}
    low, high = np.percentile(_left(resampled(profiles, draws, seed), curve), [2.5, 97.5]).tolist()
    return {"share": float(_left(mean[None], curve)[0]), "low": low, "high": high}


def _left(y: Float[Array, "k tau"], curve: Float[Array, "tau"]) -> Float[Array, "k"]:
    unit = np.asarray(curve) / np.linalg.norm(curve)
    return np.asarray(1 - (y @ unit) ** 2 / (y**2).sum(axis=1))


def _best(y: Float[Array, "k tau"], curves: Float[Array, "c tau"]) -> tuple[Array, Float[Array, "k"]]:
    """Which curve, scaled freely, is nearest to each row, and the squares that it explains."""
    unit = curves / np.linalg.norm(curves, axis=1, keepdims=True)
    explained = (y @ unit.T) ** 2
    return explained.argmax(axis=1), explained.max(axis=1)


def align(profiles: Mapping[int, Float[Array, "q tau"]], draws: int, seed: int) -> Numbers:
    """Do the shares of different horizons agree step by step from the start, or from the end?

    profiles: by horizon, of the same queries in the same order. `from start`, `from end`: half the L1 distance of the
    shares of two horizons, the shorter one padded with zeros behind or in front, averaged over pairs of horizons.
    `difference`: start - end with its interval; above 0, shapes align by steps from the end.
    """
    drawn = {tau: _shares(np.vstack([p.mean(axis=0), resampled(p, draws, seed)])) for tau, p in profiles.items()}
    pairs = list(combinations(sorted(drawn), 2))
    if not pairs:
        raise ValueError(f"profiles must have at least two horizons, got {sorted(drawn)}")
    far = np.zeros((2, draws + 1))
    for a, b in pairs:
        for k, padding in enumerate(((0, b - a), (b - a, 0))):
            padded = np.pad(drawn[a], ((0, 0), padding))
            far[k] += np.abs(padded - drawn[b]).sum(axis=1) / 2 / len(pairs)
    gap = far[0] - far[1]
    low, high = np.percentile(gap[1:], [2.5, 97.5]).tolist()
    return {
        "from start": float(far[0, 0]), "from end": float(far[1, 0]), "difference": float(gap[0]), "low": low,
        "high": high,
    }  # fmt: skip


def _shares(y: Float[Array, "k tau"]) -> Float[Array, "k tau"]:
    total = y.sum(axis=1, keepdims=True)
    return np.divide(y, total, out=np.zeros_like(y), where=total != 0)
