"""The slow twin of `sdi/scores/products.py`: every score an explicit dot product of two vectors.

tracin[i, j]            = g_i . g_j
sdi[i, j, t]            = g_i . phi_j[t]
sdi_train[i, j, s]      = phi_i[s] . g_j
step_matrix[i, j, s, t] = phi_i[s] . phi_j[t]
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sdi.scores.products import check_pair, g_of, phi_of
from sdi.store.features import Features

from .pullback import Array

G = Features | Array
Phi = Features | Array


def tracin(g_train: G, g_query: G) -> Float[Array, "n q"]:
    """Influence of each training example on each query. g_train, g_query: gradients (n, d) and (q, d), or Features.

    >>> tracin(np.ones((2, 5)), np.ones((3, 5))).shape
    (2, 3)
    """
    check_pair(g_train, g_query)
    g, p = g_of(g_train), g_of(g_query)
    out = np.zeros((len(g), len(p)))
    for i in range(len(g)):
        for j in range(len(p)):
            out[i, j] = _dot(g[i], p[j])
    return out


def sdi(g_train: G, phi_query: Phi) -> Float[Array, "n q tau"]:
    """Influence of each training example on each loop step of each query.

    g_train: gradients (n, d) or Features. phi_query: step gradients (q, tau, d) or Features.

    >>> sdi(np.ones((2, 5)), np.ones((1, 3, 5))).shape
    (2, 1, 3)
    """
    check_pair(g_train, phi_query)
    g, phi = g_of(g_train), phi_of(phi_query)
    out = np.zeros((len(g), *phi.shape[:2]))
    for i in range(len(g)):
        for j in range(phi.shape[0]):
            for t in range(phi.shape[1]):
                out[i, j, t] = _dot(g[i], phi[j, t])
    return out


def sdi_train(phi_train: Phi, g_query: G) -> Float[Array, "n q tau"]:
    """Influence of each loop step of each training example on each query.

    phi_train: step gradients (n, tau, d) or Features. g_query: gradients (q, d) or Features.

    >>> sdi_train(np.ones((2, 3, 5)), np.ones((1, 5))).shape
    (2, 1, 3)
    """
    check_pair(phi_train, g_query)
    phi, p = phi_of(phi_train), g_of(g_query)
    out = np.zeros((len(phi), len(p), phi.shape[1]))
    for i in range(phi.shape[0]):
        for j in range(len(p)):
            for s in range(phi.shape[1]):
                out[i, j, s] = _dot(phi[i, s], p[j])
    return out


def step_matrix(phi_train: Phi, phi_query: Phi) -> Float[Array, "n q tau_train tau_query"]:
    """Influence of each loop step of each training example on each loop step of each query.

    phi_train, phi_query: step gradients (n, tau, d) and (q, tau', d), or Features.

    >>> step_matrix(np.ones((2, 3, 5)), np.ones((1, 4, 5))).shape
    (2, 1, 3, 4)
    """
    check_pair(phi_train, phi_query)
    train, query = phi_of(phi_train), phi_of(phi_query)
    out = np.zeros((len(train), len(query), train.shape[1], query.shape[1]))
    for i, j, s, t in np.ndindex(*out.shape):
        out[i, j, s, t] = _dot(train[i, s], query[j, t])
    return out


def _dot(x: Float[Array, "D"], y: Float[Array, "D"]) -> float:
    return float((x * y).sum())
