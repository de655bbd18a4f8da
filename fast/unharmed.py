"""The user's model leaves as it came: flags, gradients, buffers and random state, also after an exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.checkpoint as checkpointing
from torch import nn


@contextmanager
def unharmed(model: nn.Module) -> Iterator[None]:
    """Freeze every parameter for the duration, and put back whatever a forward pass may have changed."""
    flags = [(p, p.requires_grad) for p in model.parameters()]
    buffers = [(b, b._version, b.detach().clone()) for b in model.buffers() if model.training]
    random = torch.get_rng_state()
    devices = {p.device for p in model.parameters() if p.device.type == "cuda"}
    random_on = [(device, torch.cuda.get_rng_state(device)) for device in devices]
    try:
        for p, _ in flags:
            p.requires_grad_(False)
        yield
    finally:
        for p, flag in flags:
            p.requires_grad_(flag)
        for b, version, content in buffers:
            if b._version != version:
                b.copy_(content)
        torch.set_rng_state(random)
        for device, state in random_on:
            torch.cuda.set_rng_state(state, device)


@contextmanager
def graph_keeping_checkpoints() -> Iterator[None]:
    """The user's reentrant activation checkpoints run as non-reentrant ones: the same numbers, one graph.

    A reentrant checkpoint runs its first forward under `no_grad`, where a call looks like a warm-up step.
    """

    class KeepsGraph:
        @staticmethod
        def apply(function: Any, preserve_rng_state: bool, *args: Any) -> Any:
            return checkpointing.checkpoint(
                function, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state
            )

    original = checkpointing.CheckpointFunction
    checkpointing.CheckpointFunction = KeepsGraph  # type: ignore[misc, assignment]
    try:
        yield
    finally:
        checkpointing.CheckpointFunction = original  # type: ignore[misc]
