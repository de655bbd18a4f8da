"""What a trajectory says in one number: how much, when, and how much of it cancels.

`scores` are sdi trajectories (n, q, tau); `energy` is their absolute sum over training examples. Steps are
1-based. A trajectory without any mass has no timing: its summaries are NaN. `self_influence`, `cross_mass` and
`group_share` are of TracIn, which has no steps.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float

Array = np.ndarray


def energy(scores: Float[Array, "n q tau"], group: Bool[Array, "n"] | None = None) -> Float[Array, "q tau"]:
    """How much influence acts on each step of each query: the sum over training examples of |sdi|.

    scores: sdi trajectories (n, q, tau). group: (n,) for every training example, whether it
    counts; by default all do. Returns (q, tau).

    >>> energy(np.array([[[1.0, -2.0]], [[-1.0, 1.0]]]))
    array([[2., 3.]])
    """
    size = np.abs(_finite(scores))
    return size.sum(axis=0) if group is None else size[_members(group, size, "scores")].sum(axis=0)


def late_mass(energy: Float[Array, "... tau"], first: int | Array | None = None) -> Float[Array, "..."]:
    """The share of energy at steps `first` and later.

    energy: (..., tau). first: a step, from 1, or one for each row; by default that where the second half begins.
    Returns (...), shares from 0 to 1; NaN without any energy.

    >>> late_mass(np.array([1.0, 1.0, 1.0, 5.0]))
    array(0.75)
    """
    shares = _shares(energy)
    tau = shares.shape[-1]
    start = np.asarray(tau // 2 + 1 if first is None else first)
    if start.min(initial=1) < 1 or start.max(initial=1) > tau:
        raise ValueError(f"first must be a step from 1 to {tau}, got {first}")
    late = np.arange(1, tau + 1) >= start[..., None]
    return np.asarray(np.minimum(np.where(late, shares, 0.0).sum(axis=-1), 1.0))


def centre_of_mass(energy: Float[Array, "... tau"]) -> Float[Array, "..."]:
    """The mean step, from 1, weighted by energy (..., tau).

    Returns (...), steps; NaN without any energy.

    >>> centre_of_mass(np.array([0.0, 1.0, 1.0]))
    array(2.5)
    """
    shares = _shares(energy)
    tau = shares.shape[-1]
    return np.asarray(np.clip((shares * np.arange(1, tau + 1)).sum(axis=-1), 1, tau))


def horizon(energy: Float[Array, "... tau"], level: float = 0.9) -> Float[Array, "..."]:
    """The influence horizon: the first step by which a share `level` of the energy (..., tau) has acted.

    Returns (...), steps; NaN without any energy.

    >>> horizon(np.array([8.0, 1.0, 0.5, 0.5]))
    array(2.)
    """
    if not 0 < level <= 1:
        raise ValueError(f"level must be above 0 and at most 1, got {level}")
    cdf = np.cumsum(_shares(energy), axis=-1)
    # Rounding may leave the last value of the cdf a hair below 1, and a sum of shares a hair below the level.
    reached = cdf >= level * (1 - 1e-12)
    return np.asarray(np.where(np.isnan(cdf[..., -1]), np.nan, reached.argmax(axis=-1) + 1))


def cancellation(scores: Float[Array, "... tau"]) -> Float[Array, "..."]:
    """1 - |sum over steps| / sum over steps of |.|: 0 if all steps have one sign, 1 if they cancel entirely.

    scores: trajectories (..., tau).
    Returns (...); NaN where all steps are 0.

    >>> cancellation(np.array([[1.0, 1.0], [1.0, -1.0]]))
    array([0., 1.])
    """
    scores = _finite(scores)
    return 1 - _ratio(np.abs(scores.sum(axis=-1)), np.abs(scores).sum(axis=-1))


def self_influence(g: Float[Array, "n D"]) -> Float[Array, "n"]:
    """TracIn of each example on itself: |g|^2, a proxy for how much it is memorised.

    g: gradients (n, D). Returns (n,).

    >>> self_influence(np.array([[3.0, 4.0]]))
    array([25.])
    """
    g = _finite(g, "g")
    return np.asarray(np.einsum("nd,nd->n", g, g))


def cross_mass(tracin: Float[Array, "n q"]) -> Float[Array, "n"]:
    """Cross-influence mass of each training example: the sum over queries of |TracIn|.

    tracin: (n, q). Returns (n,).

    >>> cross_mass(np.array([[1.0, -2.0]]))
    array([3.])
    """
    return np.abs(_finite(tracin, "tracin")).sum(axis=-1)


def group_share(tracin: Float[Array, "n q"], group: Bool[Array, "n"]) -> Float[Array, "q"]:
    """Share_G: the share of each query's mass of |TracIn| that a group of training examples holds.

    tracin: (n, q) of every training example on every query.
    group: (n,) for every training example, whether it belongs to the group.
    Returns (q,), from 0 to 1; NaN for a query that nothing influences.

    >>> group_share(np.array([[1.0, -2.0], [-3.0, 0.0]]), np.array([True, False]))
    array([0.25, 1.  ])
    """
    mass = np.abs(_finite(tracin, "tracin"))
    if mass.ndim != 2:
        raise ValueError(f"tracin must have shape (n, q), got {mass.shape}")
    group = _members(group, mass, "tracin")
    scaled = _ratio(mass, mass.max(axis=0, initial=0))  # before it is summed, so that tiny scores do not underflow
    return np.asarray(np.minimum(_ratio(scaled[group].sum(axis=0), scaled.sum(axis=0)), 1.0))


def _members(group: Array, scores: Array, name: str) -> Bool[Array, "n"]:
    """The group, checked."""
    group = np.asarray(group)
    if group.dtype != bool or group.shape != scores.shape[:1]:
        raise ValueError(
            f"group must hold True or False for each training example of {name}, the first axis, got {group.dtype} of "
            f"shape {group.shape} for {name} of shape {scores.shape}"
        )
    return group


def _shares(energy: Float[Array, "... tau"]) -> Float[Array, "... tau"]:
    energy = _finite(energy, "energy")
    if energy.ndim < 1 or energy.shape[-1] < 1:
        raise ValueError(f"energy must have a step axis, the last, of at least one step, got shape {energy.shape}")
    if energy.min(initial=0) < 0:
        raise ValueError(f"energy must not be negative, got {energy.min()}; take energy(scores) first")
    # Scaled by its peak before it is summed, so that a tiny trajectory does not underflow.
    scaled = _ratio(energy, energy.max(axis=-1, keepdims=True))
    return _ratio(scaled, scaled.sum(axis=-1, keepdims=True))


def _ratio(part: Array, whole: Array) -> Array:
    """part / whole, NaN where the whole is zero."""
    whole = np.broadcast_to(whole, np.shape(part))
    return np.divide(part, whole, out=np.full(np.shape(part), np.nan), where=whole > 0)


def _finite(x: Array, name: str = "scores") -> Array:
    x = np.asarray(x, dtype=np.float64)
    if not np.isfinite(x).all():
        at = tuple(int(k) for k in np.argwhere(~np.isfinite(x))[0])
        raise ValueError(f"{name} must be finite, got {x[at]} at index {at}")
    return x
