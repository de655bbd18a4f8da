"""The gradient that training takes of a batch: examples weighted, and if asked, each loop step of an example.

Random numbers of update k are drawn from the run's seed and k alone, so that every replay draws the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdi.errors import AuditError
from sdi.retraining.change import Change
from sdi.retraining.training_run import TrainingRun

from ..guard.random_and_autocast import RandomState
from .placed import Placed, Vector

UNRECORDED = (
    "training draws random numbers ({}) in update {}, which are not recorded; {} or training cannot be replayed"
)


@contextmanager
def recorded_random_numbers(run: TrainingRun, k: int) -> Iterator[None]:
    """Seed torch's generators for update k, if the run has a seed; refuse random numbers that are not recorded."""
    if run.seed is not None:
        torch.manual_seed(int(np.random.SeedSequence([run.seed, k]).generate_state(1, np.uint64)[0] >> 1))
    before, others = RandomState(), (random.getstate(), _numpy_state())
    yield
    if run.seed is None and before.has_moved():
        raise AuditError(UNRECORDED.format("torch's", k, "give seed=..."))
    if (random.getstate(), _numpy_state()) != others:
        raise AuditError(UNRECORDED.format("Python's or NumPy's", k, "draw them with torch, and give seed=...,"))


def _numpy_state() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002  (whether the user's code draws from it)
    return (kind, np.asarray(keys).tobytes(), *rest)


def losses_of(run: TrainingRun, placed: Placed, batch: Any, n: int) -> Float[Tensor, "n"]:
    """One loss for each example, checked."""
    losses = run.loss(placed.model, batch)
    if not isinstance(losses, Tensor) or losses.shape != (n,):
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise ValueError(f"loss must return one value per example: expected shape {(n,)}, got {shape}")
    return losses


def batch_gradient(run: TrainingRun, placed: Placed, k: int, weights: Vector, change: Change | None = None) -> Vector:
    """The gradient of update k at `weights`; in a counterfactual, as the change weights examples and their steps."""
    examples = run.batch(k)
    theta = weights.detach().requires_grad_()
    each = np.full(len(examples.ids), run.share(k))
    if change is not None:
        each = each * change.vector(examples.ids)
    parts = torch.as_tensor(each, dtype=theta.dtype, device=theta.device)
    if change is None or not any(i in change.steps for i in examples.ids):
        return weighted_gradient(run, placed, k, theta, parts)
    slots: dict[int, Vector] = {}

    def at(t: int) -> Vector:
        return slots.setdefault(t, theta.detach().clone().requires_grad_())

    with torch.enable_grad(), recorded_random_numbers(run, k), placed.weights_at(at):
        losses = losses_of(run, placed, examples.batch, len(parts))
        return _weighted_steps(losses, slots, parts, change, examples.ids)


def weighted_gradient(run: TrainingRun, placed: Placed, k: int, weights: Vector, parts: Float[Tensor, "n"]) -> Vector:
    """The gradient at `weights` of the sum of batch k's losses, each times its part."""
    theta = weights.detach().requires_grad_()
    with torch.enable_grad(), recorded_random_numbers(run, k), placed.weights(theta):
        losses = losses_of(run, placed, run.batch(k).batch, len(parts))
        return torch.autograd.grad(losses, theta, parts)[0]


def _weighted_steps(
    losses: Tensor, slots: dict[int, Vector], parts: Tensor, change: Change, ids: Sequence[str]
) -> Vector:
    """The sum over slots of their gradients, one backward pass for all slots in which examples are weighted alike."""
    alike: dict[tuple[float, ...], list[int]] = {}
    for t in slots:
        alike.setdefault(tuple(change.steps.get(i, {}).get(t, 1.0) for i in ids), []).append(t)
    total = torch.zeros_like(slots[0])
    for column, ts in alike.items():
        weighted = parts * torch.tensor(column, dtype=parts.dtype, device=parts.device)
        of = [slots[t] for t in ts]
        for g in torch.autograd.grad(losses, of, weighted, retain_graph=True, allow_unused=True):
            total = total if g is None else total + g
    return total
