"""The linear datamodelling score: do the summed scores of what was left out rank the runs as retraining does?

LDS of a query, or of one of its loop steps, is Spearman's rank correlation, over counterfactual runs, between the
effects that scores predict and the real ones. Reported is the mean over queries and seeds, with a bootstrap interval:
seeds, runs and queries are drawn anew with replacement, 95% of the means lie in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

FEWEST = 10  # runs that an interval needs
BOOTSTRAPS = 400
AT_ONCE = 2_000_000  # numbers
Array = np.ndarray


class Interval(NamedTuple):
    """A mean with its 95% bootstrap interval, for each of c columns (the whole loss, or loop steps)."""

    value: Float[Array, "c"]
    low: Float[Array, "c"]
    high: Float[Array, "c"]


def predicted_by_scores(scores: Float[Array, "n q c"], weights: Float[Array, "R n"]) -> Float[Array, "R q c"]:
    """What scores say of each run: the sum of the scores of what was left out, in part or wholly.

    scores: positive where training on the example lowers the loss. weights: of examples in each run; 1 is no change.

    >>> predicted_by_scores(np.array([[[2.0]], [[3.0]]]), np.array([[0.0, 1.0], [1.0, 0.5]]))[:, 0, 0].tolist()
    [2.0, 1.5]
    """
    return np.einsum("rn,nqc->rqc", 1 - weights, scores)


def spearman(x: Float[Array, "R *columns"], y: Float[Array, "R *columns"]) -> Float[Array, "*columns"]:
    """Rank correlation along the first axis. NaN where y does not vary; 0 where only x does not.

    >>> float(spearman(np.array([1.0, 2.0, 3.0]), np.array([10.0, 30.0, 20.0])))
    0.5
    """
    from scipy.stats import rankdata

    a, b = (rankdata(z, axis=0) for z in (x, y))
    a, b = a - a.mean(axis=0), b - b.mean(axis=0)
    sizes = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    out = np.divide((a * b).sum(axis=0), sizes, out=np.zeros_like(sizes), where=sizes > 0)
    return np.where((b != 0).any(axis=0), out, np.nan)


def lds(predicted: Sequence[Float[Array, "R q c"]], real: Sequence[Float[Array, "R q c"]], seed: int = 0) -> Interval:
    """The mean LDS over queries and seeds, with its interval.

    predicted, real: effects, one array for each seed of training. seed: of the bootstrap.
    """
    guess, truth = (np.stack([np.asarray(x, dtype=np.float64) for x in side]) for side in (predicted, real))
    seeds, runs, q, _ = truth.shape
    check_runs(runs)
    value = _mean(spearman(guess.swapaxes(0, 1), truth.swapaxes(0, 1)).reshape(seeds * q, -1))
    rng = np.random.default_rng([seed, 21])
    drawn = []
    at_once = max(1, min(BOOTSTRAPS, AT_ONCE // truth.size))
    for start in range(0, BOOTSTRAPS, at_once):
        many = min(at_once, BOOTSTRAPS - start)
        s = rng.integers(0, seeds, (many, seeds))[:, :, None, None]
        r = rng.integers(0, runs, (many, seeds, runs))[:, :, :, None]
        j = rng.integers(0, q, (many, seeds, q))[:, :, None, :]
        # (draws, seeds, runs, queries, c), with the runs first
        a, b = (np.moveaxis(side[s, r, j], 2, 0) for side in (guess, truth))
        drawn += [_mean(found.reshape(seeds * q, -1)) for found in spearman(a, b)]
    low, high = np.nanpercentile(drawn, [2.5, 97.5], axis=0) if np.isfinite(value).any() else (value, value)
    return Interval(value, low, high)


def lds_of_each(
    predicted: Sequence[Float[Array, "R q c"]], real: Sequence[Float[Array, "R q c"]]
) -> Float[Array, "seeds c"]:
    """The mean LDS over queries, seed by seed. predicted, real: effects, one array for each seed of training."""
    pairs = zip(predicted, real, strict=True)
    return np.stack([_mean(spearman(np.asarray(a, np.float64), np.asarray(b, np.float64))) for a, b in pairs])


def noise_ceiling(real: Sequence[Float[Array, "R q c"]], seed: int = 0) -> Interval:
    """How well retraining predicts itself: LDS between the real effects of every two seeds with the same runs.

    real: effects, one array for each seed of training, at least two; the runs leave the same groups out.
    """
    if len(real) < 2:
        raise ValueError(f"a noise ceiling needs effects of at least 2 seeds, got {len(real)}")
    pairs = [(a, b) for a in range(len(real)) for b in range(a)]
    return lds([real[a] for a, _ in pairs], [real[b] for _, b in pairs], seed)


def check_runs(runs: int) -> None:
    """Refuse fewer counterfactual runs than an interval needs.

    >>> check_runs(4)
    Traceback (most recent call last):
    ValueError: groups must be at least 10 for an interval, got 4
    """
    if runs < FEWEST:
        raise ValueError(f"groups must be at least {FEWEST} for an interval, got {runs}")


def query_loss_difference(top: Float[Array, "q q c"], random: Float[Array, "R q c"], seed: int = 0) -> Interval:
    """QLD: how much more a query's loss rises without its own top examples than without random ones.

    top: effects of runs, of which run j leaves out the top examples of query j. random: of runs without random groups
    of the same size. seed: of the bootstrap, over queries and random groups.
    """
    own = np.einsum("jjc->jc", top)
    rng = np.random.default_rng([seed, 22])
    drawn = []
    for _ in range(BOOTSTRAPS):
        queries, rows = rng.integers(0, len(own), len(own)), rng.integers(0, len(random), len(random))
        drawn.append((own[queries] - random[rows][:, queries].mean(axis=0)).mean(axis=0))
    low, high = np.percentile(drawn, [2.5, 97.5], axis=0)
    return Interval((own - random.mean(axis=0)).mean(axis=0), low, high)


def _mean(every: Float[Array, "k c"]) -> Float[Array, "c"]:
    """The mean over the first axis of what is known."""
    known = np.isfinite(every)
    count = known.sum(axis=0)
    total = np.where(known, every, 0.0).sum(axis=0)
    return np.divide(total, count, out=np.full(count.shape, np.nan), where=count > 0)
