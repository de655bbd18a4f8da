"""A batch is a mapping of arrays; here it is read and checked.

tokens   (n, L) integers from 0 to vocab - 1
targets  (n, L) integers from 0 to classes - 1; where the mask is zero, anything
mask     (n, L) weight of each token's loss, default 1; every example needs a token with weight
tau      (n,) steps each example takes, default config.tau
readout  (n,) the step, from 1 to tau, whose state is read out, default tau
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sdi.inputs.looped_config import LoopedConfig

from .pullback import Array


@dataclass(frozen=True, eq=False)
class Inputs:
    """What the model reads of a batch."""

    tokens: Int[Array, "n L"]
    tau: Int[Array, "n"]
    readout: Int[Array, "n"]


@dataclass(frozen=True, eq=False)
class Labels:
    """What the loss reads of a batch."""

    targets: Int[Array, "n L"]
    mask: Float[Array, "n L"]


def read_inputs(batch: Mapping[str, Any], config: LoopedConfig) -> Inputs:
    """Tokens, steps and read-out steps of every example.

    >>> read_inputs({"tokens": [[0, 1, 2]]}, LoopedConfig(tau=5)).readout
    array([5])
    """
    tokens = _integers(batch, "tokens")
    if tokens.ndim != 2 or 0 in tokens.shape:
        raise ValueError(f"tokens must have axes (n, L) with at least one example and one token, got {tokens.shape}")
    n, length = tokens.shape
    _check_range(tokens, "tokens", config.vocab)
    if config.positions and length > config.length:
        raise ValueError(
            f"tokens must have at most {config.length} columns, the number of learned positions, got {length}"
        )
    tau = _integers(batch, "tau", np.full(n, config.tau))
    readout = _integers(batch, "readout", tau)
    for name, array in (("tau", tau), ("readout", readout)):
        if array.shape != (n,):
            raise ValueError(f"{name} must hold one step for each of the {n} examples, got shape {array.shape}")
        if array.min() < 1:
            raise ValueError(f"{name} must be at least 1, got {array.min()} in example {array.argmin()}")
    if (readout > tau).any():
        i = int((readout > tau).argmax())
        raise ValueError(f"readout must be at most tau, got {readout[i]} with tau={tau[i]} in example {i}")
    return Inputs(tokens, tau, readout)


def read_labels(batch: Mapping[str, Any], shape: tuple[int, int], classes: int) -> Labels:
    """Targets and mask for logits of shape (n, L, classes)."""
    targets = _integers(batch, "targets")
    mask = np.asarray(batch.get("mask", np.ones(shape)), dtype=np.float64)
    for name, array in (("targets", targets), ("mask", mask)):
        if array.shape != shape:
            raise ValueError(f"{name} must have the shape of tokens, {shape}, got {array.shape}")
    if not np.isfinite(mask).all() or mask.min() < 0:
        raise ValueError("mask must hold finite weights of at least 0, for instance True and False")
    empty = np.flatnonzero(mask.sum(axis=1) == 0)
    if empty.size:
        raise ValueError(f"mask must leave at least one token in every example, got none in example {empty[0]}")
    _check_range(targets, "targets", classes, mask > 0)
    return Labels(np.where(mask > 0, targets, 0), mask)


def _integers(batch: Mapping[str, Any], name: str, default: Array | None = None) -> Array:
    if name not in batch and default is None:
        raise ValueError(f"batch must hold {name!r}, got only {sorted(batch)}")
    array = np.asarray(batch.get(name, default))
    if array.dtype.kind not in "iu":
        raise ValueError(f"{name} must hold integers, got {array.dtype}")
    return array.astype(np.int64)


def _check_range(array: Array, name: str, size: int, where: Array | bool = True) -> None:
    wrong = np.argwhere(((array < 0) | (array >= size)) & where)
    if len(wrong):
        i, l = wrong[0]
        raise ValueError(f"{name} must be from 0 to {size - 1}, got {array[i, l]} in example {i} at position {l}")
