"""Influence scores by GEMM on the device of choice: the fast twin of `reference/scores.py`."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdi import scores
from sdi.features import Features

Array = np.ndarray


def tracin(g_train: Features | Array, g_query: Features | Array) -> Float[Array, "n q"]:
    """tracin[i, j] = g_i . g_j"""
    scores.check_pair(g_train, g_query)
    return (_tensor(scores.g_of(g_train)) @ _tensor(scores.g_of(g_query)).T).numpy()


def sdi(g_train: Features | Array, phi_query: Features | Array) -> Float[Array, "n q tau"]:
    """sdi[i, j, t] = g_i . phi_j[t]"""
    scores.check_pair(g_train, phi_query)
    g, phi = _tensor(scores.g_of(g_train)), _tensor(scores.phi_of(phi_query))
    return (g @ phi.flatten(0, 1).T).unflatten(1, phi.shape[:2]).numpy()


def sdi_train(phi_train: Features | Array, g_query: Features | Array) -> Float[Array, "n q tau"]:
    """sdi_train[i, j, s] = phi_i[s] . g_j"""
    return np.ascontiguousarray(sdi(g_query, phi_train).transpose(1, 0, 2))


def step_matrix(phi_train: Features | Array, phi_query: Features | Array) -> Float[Array, "n q tau_train tau_query"]:
    """step_matrix[i, j, s, t] = phi_i[s] . phi_j[t]"""
    scores.check_pair(phi_train, phi_query)
    a, b = _tensor(scores.phi_of(phi_train)), _tensor(scores.phi_of(phi_query))
    product = a.flatten(0, 1) @ b.flatten(0, 1).T
    return product.unflatten(1, b.shape[:2]).unflatten(0, a.shape[:2]).transpose(1, 2).contiguous().numpy()


def _tensor(x: Array) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(x))
