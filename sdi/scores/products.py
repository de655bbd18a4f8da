"""Influence scores of one checkpoint, and their weighted sum over checkpoints.

    tracin[i, j]            = g_i . g_j
    sdi[i, j, t]            = g_i . phi_j[t]          query steps, the default
    sdi_train[i, j, s]      = phi_i[s] . g_j          training steps
    step_matrix[i, j, s, t] = phi_i[s] . phi_j[t]

Each sums to the one above it; what enters outside the loop is `outside`, so that
`tracin == sdi.sum(-1) + outside`. A positive score means that a step of gradient descent on the training
example lowers the loss of the query.

Every function takes arrays, or Features, which refuse to be multiplied if they were not made alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from sdi.store.features import Features

Array = np.ndarray
G = Features | Array
Phi = Features | Array


def tracin(g_train: G, g_query: G) -> Float[Array, "n q"]:
    """Influence of each training example on each query: the inner products of their gradients.

    g_train: gradients (n, d) or Features. g_query: gradients (q, d) or Features.
    Returns (n, q).

    >>> tracin(np.ones((2, 5)), np.ones((3, 5))).shape
    (2, 3)
    """
    check_pair(g_train, g_query)
    return g_of(g_train) @ g_of(g_query).T


def sdi(g_train: G, phi_query: Phi) -> Float[Array, "n q tau"]:
    """Influence of each training example on each loop step of each query.

    g_train: gradients (n, d) or Features. phi_query: step gradients (q, tau, d) or Features.
    Returns (n, q, tau).

    >>> sdi(np.ones((2, 5)), np.ones((1, 3, 5))).shape
    (2, 1, 3)
    """
    check_pair(g_train, phi_query)
    return np.tensordot(g_of(g_train), phi_of(phi_query), axes=(-1, -1))


def sdi_train(phi_train: Phi, g_query: G) -> Float[Array, "n q tau"]:
    """Influence of each loop step of each training example on each query.

    phi_train: step gradients (n, tau, d) or Features. g_query: gradients (q, d) or Features.
    Returns (n, q, tau), tau of the training example.

    >>> sdi_train(np.ones((2, 3, 5)), np.ones((1, 5))).shape
    (2, 1, 3)
    """
    check_pair(phi_train, g_query)
    return np.tensordot(phi_of(phi_train), g_of(g_query), axes=(-1, -1)).swapaxes(1, 2)


def step_matrix(phi_train: Phi, phi_query: Phi) -> Float[Array, "n q tau_train tau_query"]:
    """Influence of each loop step of each training example on each loop step of each query.

    phi_train, phi_query: step gradients (n, tau_train, d) and (q, tau_query, d), or Features.
    Returns (n, q, tau_train, tau_query).

    >>> step_matrix(np.ones((2, 3, 5)), np.ones((1, 4, 5))).shape
    (2, 1, 3, 4)
    """
    check_pair(phi_train, phi_query)
    return np.tensordot(phi_of(phi_train), phi_of(phi_query), axes=(-1, -1)).swapaxes(1, 2)


def outside(g_train: G, query: Features) -> Float[Array, "n q"]:
    """The part of TracIn that enters the query outside its loop; zeros if there is none.

    g_train: gradients (n, d) or Features. query: Features.
    Returns (n, q).

    >>> from sdi.sketch.sketch_map import Block
    >>> blocks = (Block("w", (3,), 0, 3),)
    >>> query = Features(np.ones((1, 2, 3)), np.array([2]), blocks, "a", outside=np.full((1, 3), 0.5))
    >>> outside(np.ones((2, 3)), query)
    array([[1.5],
           [1.5]])
    """
    check_pair(g_train, query)
    part = np.zeros_like(query.g) if query.outside is None else query.outside
    return g_of(g_train) @ part.T


def by_parameter(g_train: Features, phi_query: Features) -> dict[str, Float[Array, "n q tau"]]:
    """`sdi` split over parameters, by parameter name; the parts sum to `sdi`.

    g_train, phi_query: Features of training examples, and step-resolved ones of queries.
    Returns an array (n, q, tau) for each parameter.

    >>> from sdi.sketch.sketch_map import Block
    >>> blocks = (Block("w", (2,), 0, 2), Block("b", (1,), 2, 3))
    >>> train, query = (Features(np.ones((n, 4, 3)), np.full(n, 4), blocks, "a") for n in (1, 2))
    >>> {name: (part.shape, float(part[0, 0, 0])) for name, part in by_parameter(train, query).items()}
    {'w': ((1, 2, 4), 8.0), 'b': ((1, 2, 4), 4.0)}
    """
    check_pair(g_train, phi_query)
    g, phi = g_train.g, phi_query.phi
    return {b.name: sdi(g[:, b.start : b.stop], phi[..., b.start : b.stop]) for b in phi_query.blocks}


def over_checkpoints(scores: Sequence[ArrayLike], eta: Sequence[float]) -> Float[Array, "..."]:
    """The sum over checkpoints of eta * scores.

    scores: one array per checkpoint, all of one shape. eta: one weight per checkpoint.
    Returns an array of that shape, (...).

    >>> over_checkpoints([[1.0, 2.0], [3.0, 4.0]], eta=[0.5, 0.25])
    array([1.25, 2.  ])
    """
    if len(scores) != len(eta) or not len(eta):
        raise ValueError(f"eta must hold one weight for each of the {len(scores)} checkpoints, got {len(eta)}")
    weights = np.asarray(eta, dtype=np.float64)
    if not np.isfinite(weights).all():
        raise ValueError(f"eta must be finite, got {list(eta)}")
    shapes = {np.shape(s) for s in scores}
    if len(shapes) > 1:
        raise ValueError(f"scores of all checkpoints must have one shape, got {sorted(shapes)}")
    return np.asarray(np.tensordot(weights, np.stack([np.asarray(s) for s in scores]), axes=1))


def check_pair(train: Features | Array, query: Features | Array) -> None:
    """SketchMismatch if two Features have different sketches or parameters; arrays must agree in their last axis."""
    if isinstance(train, Features) and isinstance(query, Features):
        train.check_matches(query)
        return
    widths = [np.shape(x.values if isinstance(x, Features) else x)[-1] for x in (train, query)]
    if widths[0] != widths[1]:
        raise ValueError(f"train and query must have one width D, got {widths[0]} and {widths[1]}")


def g_of(x: G) -> Float[Array, "n D"]:
    """The gradients of Features, or an array of them."""
    g = x.g if isinstance(x, Features) else np.asarray(x)
    if g.ndim != 2:
        raise ValueError(f"a gradient g must have axes (n, D), got shape {g.shape}; sum phi over its steps first")
    return g


def phi_of(x: Phi) -> Float[Array, "n tau D"]:
    """The step gradients of Features, or an array of them."""
    phi = x.phi if isinstance(x, Features) else np.asarray(x)
    if phi.ndim != 3:
        raise ValueError(f"step gradients phi must have axes (n, tau, D), got shape {phi.shape}")
    return phi
