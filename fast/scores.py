"""Influence scores by GEMM on the device of choice: the fast twin of `reference/scores.py`."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdi.scores import products as scores
from sdi.store.features import Features

Array = np.ndarray
PART = 1 << 14


def tracin(g_train: Features | Array, g_query: Features | Array) -> Float[Array, "n q"]:
    """tracin[i, j] = g_i . g_j"""
    scores.check_pair(g_train, g_query)
    return _products(scores.g_of(g_train), scores.g_of(g_query))


def sdi(g_train: Features | Array, phi_query: Features | Array) -> Float[Array, "n q tau"]:
    """sdi[i, j, t] = g_i . phi_j[t]"""
    scores.check_pair(g_train, phi_query)
    return _products(scores.g_of(g_train), scores.phi_of(phi_query))


def sdi_train(phi_train: Features | Array, g_query: Features | Array) -> Float[Array, "n q tau"]:
    """sdi_train[i, j, s] = phi_i[s] . g_j"""
    scores.check_pair(phi_train, g_query)
    return np.ascontiguousarray(_products(scores.phi_of(phi_train), scores.g_of(g_query)).swapaxes(1, 2))


def step_matrix(phi_train: Features | Array, phi_query: Features | Array) -> Float[Array, "n q tau_train tau_query"]:
    """step_matrix[i, j, s, t] = phi_i[s] . phi_j[t]"""
    scores.check_pair(phi_train, phi_query)
    return np.ascontiguousarray(_products(scores.phi_of(phi_train), scores.phi_of(phi_query)).swapaxes(1, 2))


def _products(x: Float[Array, "*i D"], y: Float[Array, "*j D"]) -> Float[Array, "*i *j"]:
    """Every row of x with every row of y, PART columns at a time, these sums added in float64.

    MKL adds up all columns in the rows' own precision: over millions of float32 columns, that loses per cents.
    """
    dtype = np.result_type(x, y, np.float32)
    rows_x, rows_y = (_tensor(a.reshape(-1, a.shape[-1]), dtype) for a in (x, y))
    total = torch.zeros(len(rows_x), len(rows_y), dtype=torch.float64)
    for k in range(0, rows_x.shape[1], PART):
        total += rows_x[:, k : k + PART] @ rows_y[:, k : k + PART].T
    return total.numpy().astype(dtype).reshape(*x.shape[:-1], *y.shape[:-1])


def _tensor(x: Float[Array, "rows D"], dtype: np.dtype) -> Tensor:
    return torch.from_numpy(np.require(x, dtype, ["C", "W"]))  # torch warns of arrays that it may not write to
