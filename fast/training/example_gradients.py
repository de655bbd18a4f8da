"""The gradient of every training example, of one batch, or of each example once. Dense, one batch at a time.

The engine takes all gradients of a batch in one pass and audits itself; where it refuses the model, autograd takes as
many backward passes as there are examples, as one batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from sdi.errors import AuditError, CoverageError
from sdi.retraining.training_run import TrainingRun

from ..featurizer import Featurizer
from .batch_gradient import losses_of, recorded_random_numbers
from .placed import Vector
from .replay import Replay

ENGINES: WeakKeyDictionary[Replay, Featurizer | None] = WeakKeyDictionary()  # None: it refused


def example_gradients(replay: Replay, k: int, weights: Vector) -> Float[Tensor, "n D"]:
    """The gradient of every example of batch k at `weights`."""
    if replay not in ENGINES:
        everything = replace(replay.run.loop, body=tuple(replay.placed.trained))
        ENGINES[replay] = Featurizer(replay.placed.model, replay.run.loss, loop=everything, steps=False)
    engine = ENGINES[replay]
    if engine is not None:
        try:
            return by_engine(replay, engine, k, weights)
        except (AuditError, CoverageError):
            ENGINES[replay] = None
    return by_autograd(replay, k, weights)


def by_engine(replay: Replay, engine: Featurizer, k: int, weights: Vector) -> Float[Tensor, "n D"]:
    """From hooks, in one backward pass. engine: with all trained parameters in its body."""
    placed, examples = replay.placed, replay.run.batch(k)
    with placed.copied_in(weights), recorded_random_numbers(replay.run, k):
        features = engine(examples.batch)
    g = torch.from_numpy(features.g).to(weights)
    starts = dict(zip(placed.shapes, np.cumsum([0, *placed.sizes[:-1]]).tolist(), strict=True))
    out = weights.new_zeros(len(g), len(weights))
    for block in features.blocks:
        out[:, starts[block.name] : starts[block.name] + block.stop - block.start] = g[:, block.start : block.stop]
    return out


def by_autograd(replay: Replay, k: int, weights: Vector) -> Float[Tensor, "n D"]:
    """From a backward pass for each example."""
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
