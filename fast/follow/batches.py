"""The number of examples in a batch of any type, and the number of loop steps of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from sdi.inputs import batches


def count_examples(batch: Any) -> int:
    """The length of the first array in the batch; 1 for a type without arrays, which only the loss understands."""
    try:
        return batches.count_examples(batch)
    except ValueError:
        return 1


def batch_tau(batch: Any, steps_seen: int, n: int) -> Int[np.ndarray, "n"]:
    """The steps of each of n examples: the batch's "tau" if it has one, else all steps that were seen."""
    tau = batch.get("tau") if isinstance(batch, Mapping) else None
    if tau is None:
        return np.full(n, max(steps_seen, 1), dtype=np.int64)
    tau = np.asarray(torch.as_tensor(tau).cpu())
    if tau.dtype.kind not in "iu":
        raise ValueError(f"tau must hold integers, got {tau.dtype}")
    tau = tau.astype(np.int64)
    if tau.shape != (n,) or tau.min() < 1 or tau.max() > steps_seen:
        raise ValueError(
            f"the batch's tau must hold one number of steps from 1 to {steps_seen} (the calls of the step module) "
            f"for each of the {n} examples, got {tau.tolist()}"
        )
    return tau
