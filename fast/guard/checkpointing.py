"""The user's own activation checkpointing (`torch.utils.checkpoint`), made harmless while gradients are followed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch.utils.checkpoint as checkpointing

from sdi.errors import CoverageError


class _KeepsGraph:
    @staticmethod
    def apply(function: Any, preserve_rng_state: bool, *args: Any) -> Any:
        return checkpointing.checkpoint(function, *args, use_reentrant=False, preserve_rng_state=preserve_rng_state)


def _no_checkpoint(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


@contextmanager
def graph_keeping_checkpoints() -> Iterator[None]:
    """Reentrant checkpoints run as non-reentrant ones: the same numbers, one graph.

    A reentrant checkpoint runs its first forward under `no_grad`, where a call looks like a warm-up step.
    """
    with patch.object(checkpointing, "CheckpointFunction", _KeepsGraph):
        try:
            yield
        except checkpointing.CheckpointError as error:
            raise CoverageError(
                "what stands in the model's own activation checkpoint computes something else when it is run again: it "
                "keeps state between calls (a count of steps, a cache); pass what changes as an argument, or leave the "
                f"checkpoint out ({str(error).splitlines()[0]})"
            ) from error


@contextmanager
def no_checkpoints() -> Iterator[None]:
    """Non-reentrant checkpoints run as plain calls.

    A replayed module's weights are exchanged for the duration of its call only; a checkpoint in it would run again
    after that, with other weights.
    """
    with patch.object(checkpointing, "_checkpoint_without_reentrant_generator", _no_checkpoint):
        yield
