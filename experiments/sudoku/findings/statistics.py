"""Statistics of the table: medians, rank correlations, t-tests, intervals; plain numbers in, plain dictionaries out.

Every test returns p = None where it cannot be made: fewer than three values, or no spread.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float
from scipy import stats

Array = np.ndarray
Numbers = dict[str, Any]


def quartiles(x: Float[Array, "n"]) -> Numbers:
    """Median and quartiles.

    >>> quartiles(np.array([1.0, 2.0, 3.0, 4.0, 5.0]))
    {'n': 5, 'median': 3.0, 'low': 2.0, 'high': 4.0}
    """
    if not len(x):
        return {"n": 0, "median": None, "low": None, "high": None}
    low, median, high = np.percentile(x, [25, 50, 75]).tolist()
    return {"n": len(x), "median": median, "low": low, "high": high}


def spearman(x: Float[Array, "n"], y: Float[Array, "n"]) -> Numbers:
    """Spearman's rank correlation and its p-value, two-sided.

    >>> spearman(np.arange(9), np.arange(9) ** 2)["rho"]
    1.0
    """
    if len(x) < 3 or _flat(x) or _flat(y):
        return {"n": len(x), "rho": None, "p": None}
    found = stats.spearmanr(x, y)
    return {"n": len(x), "rho": round(float(found.statistic), 12), "p": float(found.pvalue)}


def partial_spearman(x: Float[Array, "n"], y: Float[Array, "n"], given: Float[Array, "n"]) -> Numbers:
    """Spearman's correlation of x and y with the ranks of `given` held equal: of what a line in these leaves of either.

    The p-value is that of Pearson's correlation with n - 3 degrees of freedom.
    """
    if len(x) < 5 or any(map(_flat, (x, y, given))):
        return {"n": len(x), "rho": None, "p": None}
    ranks = [stats.rankdata(v) for v in (x, y, given)]
    a, b, c = (r - r.mean() for r in ranks)
    left = [v - c * (v @ c) / (c @ c) for v in (a, b)]
    if any(float(v @ v) < 1e-9 * float(w @ w) for v, w in zip(left, (a, b), strict=True)):
        return {"n": len(x), "rho": None, "p": None}
    rho = float(np.clip(left[0] @ left[1] / np.sqrt((left[0] @ left[0]) * (left[1] @ left[1])), -1, 1))
    free = len(x) - 3
    t = rho * np.sqrt(free / max(1 - rho**2, np.finfo(float).tiny))
    return {"n": len(x), "rho": rho, "p": float(2 * stats.t.sf(abs(t), free))}


def welch(x: Float[Array, "n"], y: Float[Array, "k"]) -> Numbers:
    """Welch's t-test of two samples with their own variances, two-sided: is the mean of x another than that of y?"""
    if min(len(x), len(y)) < 3 or (_flat(x) and _flat(y)):
        return {"difference": _mean(x, y), "t": None, "p": None}
    found = stats.ttest_ind(x, y, equal_var=False)
    return {"difference": _mean(x, y), "t": float(found.statistic), "p": float(found.pvalue)}


def paired(x: Float[Array, "n"], y: Float[Array, "n"]) -> Numbers:
    """The paired t-test, two-sided: is the mean of x - y another than 0?"""
    if len(x) != len(y):
        raise ValueError(f"x and y must be pairs, got {len(x)} and {len(y)} values")
    if len(x) < 3 or _flat(x - y):
        return {"difference": _mean(x, y), "t": None, "p": None}
    found = stats.ttest_rel(x, y)
    return {"difference": _mean(x, y), "t": float(found.statistic), "p": float(found.pvalue)}


def quartile_claim(self_influence: Float[Array, "n"], mass: Float[Array, "n"]) -> Numbers:
    """How many examples of the lowest quarter of self-influence are in the highest quarter of the cross mass C(z).

    `chance` is the number expected if the two had nothing to do with each other, `p` the probability to find as few.
    """
    quarter = len(mass) // 4
    low = np.argsort(self_influence, kind="stable")[:quarter]
    high = np.argsort(mass, kind="stable")[len(mass) - quarter :]
    found = len(np.intersect1d(low, high))
    p = float(stats.hypergeom.cdf(found, len(mass), quarter, quarter)) if quarter else None
    return {"found": found, "of": quarter, "chance": quarter**2 / max(1, len(mass)), "p": p}


def better_predictor(
    a: Float[Array, "n"], b: Float[Array, "n"], y: Float[Array, "n"], seed: int = 0, draws: int = 2000
) -> Numbers:
    """Which of a and b goes better with y: |Spearman| of each, and a 95% bootstrap interval of a's minus b's."""
    both = {"a": spearman(a, y), "b": spearman(b, y)}
    if both["a"]["rho"] is None or both["b"]["rho"] is None:
        return {**both, "difference": None, "low": None, "high": None}
    rows = np.random.default_rng(seed).integers(0, len(y), (draws, len(y)))
    ranks = [stats.rankdata(v[rows], axis=1) for v in (a, b, y)]
    ranks = [r - r.mean(axis=1, keepdims=True) for r in ranks]
    norms = [np.sqrt((r**2).sum(axis=1)) for r in ranks]
    rho = [
        np.divide((r * ranks[2]).sum(axis=1), norm * norms[2], out=np.zeros(draws), where=norm * norms[2] > 0)
        for r, norm in zip(ranks[:2], norms[:2], strict=True)
    ]
    gaps = np.abs(rho[0]) - np.abs(rho[1])
    low, high = np.percentile(gaps, [2.5, 97.5]).tolist()
    return {**both, "difference": abs(both["a"]["rho"]) - abs(both["b"]["rho"]), "low": low, "high": high}


def matched_pairs(
    of: Float[Array, "n"], hard: Bool[Array, "n"], easy: Bool[Array, "n"], given: Float[Array, "n"], width: float = 0.05
) -> Numbers:
    """Hard examples beside easy ones of nearly the same `given`: the ratio of `of` within the pairs.

    Pairs are made nearest first, each example in at most one, as long as they are within `width` standard deviations of
    log `given`. `ratio` is the geometric mean of hard / easy, `left` the same of `given`, to see how equal it is; `p`
    is of the paired t-test of the logarithms. `of` and `given` must be above 0.
    """
    level = np.log(given)
    i, j = np.meshgrid(np.flatnonzero(hard), np.flatnonzero(easy), indexing="ij")
    far = np.abs(level[i] - level[j])
    near = np.argwhere(far <= width * level.std())
    taken: dict[str, set[int]] = {"hard": set(), "easy": set()}
    pairs = []
    for a, b in near[np.argsort(far[tuple(near.T)], kind="stable")].tolist():
        if a not in taken["hard"] and b not in taken["easy"]:
            taken["hard"].add(a)
            taken["easy"].add(b)
            pairs.append((i[a, b], j[a, b]))
    if not pairs:
        return {"pairs": 0, "ratio": None, "p": None, "left": None}
    one, two = np.array(pairs).T
    test = paired(np.log(of[one]), np.log(of[two]))
    left = float(np.exp((level[one] - level[two]).mean()))
    return {"pairs": len(pairs), "ratio": float(np.exp(test["difference"])), "p": test["p"], "left": left}


def _flat(x: Array) -> bool:
    return len(x) == 0 or bool(np.ptp(x) == 0)


def _mean(x: Array, y: Array) -> float | None:
    return float(np.mean(x) - np.mean(y)) if len(x) and len(y) else None
