"""Batches are nested mappings, lists and tuples of tensors whose first axis counts examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor
from torch.utils import _pytree as pytree


def count_examples(batch: Any) -> int:
    """Rows of the first tensor in the batch; 1 if it holds none."""
    for x in pytree.tree_leaves(dict(batch) if isinstance(batch, Mapping) else batch):
        if isinstance(x, (Tensor, np.ndarray)) and x.ndim > 0:
            return len(x)
    return 1


def take_examples(batch: Any, rows: slice, n: int) -> Any:
    """Some examples of a batch: every tensor, array or list with n rows is cut; what all examples share stays."""
    found = False

    def is_list(x: Any) -> bool:
        return isinstance(x, list) and not any(isinstance(y, (Tensor, np.ndarray)) for y in pytree.tree_leaves(x))

    def cut(x: Any) -> Any:
        nonlocal found
        has_rows = is_list(x) or (isinstance(x, (Tensor, np.ndarray)) and x.ndim > 0)
        if not has_rows or len(x) != n:
            return x
        found = found or not is_list(x)
        return x[rows]

    small = pytree.tree_map(cut, dict(batch) if isinstance(batch, Mapping) else batch, is_leaf=is_list)
    if not found:
        raise TypeError(
            f"cannot take single examples out of a batch of type {type(batch).__name__}: no tensor in it has {n} rows; "
            "give a mapping, list or tuple of tensors, or pass audit='off' and no byte budget"
        )
    if isinstance(batch, Mapping) and not isinstance(batch, dict):
        small = type(batch)(small)  # type: ignore[call-arg]
    return small


def batch_tau(batch: Any, steps_seen: int, n: int) -> Int[np.ndarray, "n"]:
    """Steps of each example: the batch's own "tau" where it has one, all the steps seen otherwise."""
    tau = batch.get("tau") if isinstance(batch, Mapping) else None
    if tau is None:
        return np.full(n, max(steps_seen, 1), dtype=np.int64)
    tau = np.asarray(torch.as_tensor(tau).cpu(), dtype=np.int64)
    if tau.shape != (n,) or tau.min() < 1 or tau.max() > steps_seen:
        raise ValueError(
            f"the batch's tau must hold one number of steps from 1 to {steps_seen} (the calls of the step module) "
            f"for each of the {n} examples, got {tau.tolist()}"
        )
    return tau
