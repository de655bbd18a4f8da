"""The gradient of every training example, of one batch, or of each example once. Dense, one batch at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from sdi.retraining.training_run import TrainingRun

from .batch_gradient import losses_of, recorded_random_numbers
from .placed import Vector
from .replay import Replay


def example_gradients(replay: Replay, k: int, weights: Vector) -> Float[Tensor, "n D"]:
    """The gradient of every example of batch k at `weights`."""
    run, placed = replay.run, replay.placed
    examples = run.batch(k)
    theta = weights.detach().requires_grad_()
    n = len(examples.ids)
    with torch.enable_grad(), sdpa_kernel(SDPBackend.MATH), placed.weights(theta):
        with recorded_random_numbers(run, k):
            losses = losses_of(run, placed, examples.batch, n)
        each = torch.eye(n, dtype=losses.dtype, device=losses.device)
        return torch.autograd.grad(losses, theta, each, is_grads_batched=True)[0]


def first_met(run: TrainingRun) -> Iterator[tuple[int, list[int]]]:
    """(k, rows of batch k whose examples no batch before has held): every training example once."""
    seen: set[int] = set()
    for k in range(run.updates):
        rows = [int(row) for row in run.rows(k)]
        fresh = [i for i, row in enumerate(rows) if row not in seen and row not in rows[:i]]
        if fresh:
            seen.update(rows)
            yield k, fresh


def each_once(replay: Replay, weights: Vector) -> Iterator[tuple[np.ndarray, Float[Tensor, "n D"]]]:
    """(places in `run.ids`, gradients) of every training example once, batch by batch."""
    for k, fresh in first_met(replay.run):
        yield replay.run.rows(k)[fresh], example_gradients(replay, k, weights)[fresh]
