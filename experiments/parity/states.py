"""states: a trajectory as a walk among few states. PCA, recurrence, k-means, transitions, the cycle they make."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray


def recurrence(h: Float[Array, "t d"], most: int = 12) -> Float[Array, "most"]:
    """The mean cosine of h_t and h_{t+p}, for p = 1..most."""
    unit = h / np.linalg.norm(h, axis=-1, keepdims=True)
    return np.array([(unit[:-p] * unit[p:]).sum(-1).mean() for p in range(1, most + 1)])


@dataclass(frozen=True)
class Plane:
    """The plane through the mean that holds most of the variance."""

    mean: Float[Array, "d"]
    axes: Float[Array, "2 d"]
    share: float  # of the variance

    @classmethod
    def fit(cls, h: Float[Array, "t d"]) -> Plane:
        mean = h.mean(0)
        _, s, v = np.linalg.svd(h - mean, full_matrices=False)
        axes = v[:2] * np.where(v[np.arange(2), np.abs(v[:2]).argmax(1)] < 0, -1.0, 1.0)[:, None]  # one sign for all
        return cls(mean, axes, float((s[:2] ** 2).sum() / max((s**2).sum(), np.finfo(float).tiny)))

    def __call__(self, h: Float[Array, "... d"]) -> Float[Array, "... 2"]:
        return (h - self.mean) @ self.axes.T


def nearest(h: Float[Array, "n d"], centres: Float[Array, "k d"]) -> tuple[Int[Array, "n"], Float[Array, "n"]]:
    """The nearest centre of each point, and its distance."""
    far = np.sqrt(((h[:, None] - centres) ** 2).sum(-1))
    return far.argmin(1), far.min(1)


def kmeans(h: Float[Array, "n d"], k: int, seed: int = 0, restarts: int = 20, most: int = 100) -> Float[Array, "k d"]:
    """k-means centres: the best of several restarts (k-means++, then Lloyd), in the order the points visit them."""
    h = np.asarray(h, dtype=np.float64)
    if not 1 <= k <= len(np.unique(h, axis=0)):
        raise ValueError(f"k must be from 1 to the number of different points, got k={k} for {len(h)} points")
    rng = np.random.default_rng(seed)
    best, least = h[:k], np.inf
    for _ in range(restarts):
        centres = _spread(h, k, rng)
        for _ in range(most):
            labels, _ = nearest(h, centres)
            new = np.array([h[labels == j].mean(0) if (labels == j).any() else centres[j] for j in range(k)])
            moved, centres = not np.array_equal(new, centres), new
            if not moved:
                break
        cost = float((nearest(h, centres)[1] ** 2).sum())
        if cost < least:
            best, least = centres, cost
    visited = list(dict.fromkeys(nearest(h, best)[0].tolist()))
    return best[visited + [j for j in range(k) if j not in visited]]


def _spread(h: Float[Array, "n d"], k: int, rng: np.random.Generator) -> Float[Array, "k d"]:
    """k-means++: each next start is drawn by its squared distance from the ones before."""
    chosen = [h[rng.integers(len(h))]]
    while len(chosen) < k:
        square = nearest(h, np.array(chosen))[1] ** 2
        chosen.append(h[rng.choice(len(h), p=square / square.sum())])
    return np.array(chosen)


def transitions(labels: Int[Array, "t"], k: int) -> Float[Array, "k k"]:
    """P[i, j]: how often j follows i, as a share of what follows i. A state that nothing follows has a row of zeros.

    >>> transitions(np.array([0, 1, 0, 1]), 2).tolist()
    [[0.0, 1.0], [1.0, 0.0]]
    """
    counts = np.zeros((k, k))
    np.add.at(counts, (labels[:-1], labels[1:]), 1)
    total = counts.sum(1, keepdims=True)
    return counts / np.where(total > 0, total, 1)


def cycle(P: Float[Array, "k k"], start: int) -> list[int]:
    """The states that following the likeliest transition from `start` ends up going round in.

    >>> cycle(np.roll(np.eye(3), 1, axis=1), 2)
    [2, 0, 1]
    """
    path = [start]
    while P[path[-1]].any():
        then = int(P[path[-1]].argmax())
        if then in path:
            return path[path.index(then) :]
        path.append(then)
    return []


def sequence_period(labels: Int[Array, "t"], skip: int) -> int | None:
    """The smallest period of a state sequence after its first `skip` steps, exact; None if it has none seen twice.

    >>> sequence_period(np.array([9, 0, 1, 2, 0, 1, 2, 0]), 1)
    3
    """
    rest = labels[skip:]
    for p in range(1, len(rest) // 2 + 1):
        if (rest[p:] == rest[:-p]).all():
            return p
    return None
