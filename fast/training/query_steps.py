"""What a loop step of a query does: its gradient phi, and its loss with other weights in that step only.

Steps get weights of their own (`Placed.weights_at`), so that phi[t] is autograd's gradient by the weights of step t.
It covers all trained parameters: those outside the body, and body calls outside the loop, are in slot 0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sdi.errors import AuditError
from sdi.inputs.batches import Examples
from sdi.retraining.training_run import TrainingRun

from ..featurizer import featurize
from ..follow.batches import batch_tau
from ..follow.one_pass import NO_STEP
from ..guard.audit import tolerance_of
from ..guard.restore_model import unharmed
from .batch_gradient import losses_of
from .placed import Placed, Vector


class StepGradients(NamedTuple):
    """Of q queries: slot 0 is outside the loop, slot t is step t."""

    phi: Float[Tensor, "q slots D"]
    whole: Float[Tensor, "q D"]  # the gradient with one weight for all slots, by a pass of its own
    losses: Float[Tensor, "q"]
    tau: Int[np.ndarray, "q"]
    ids: tuple[str, ...]


def query_gradients(
    run: TrainingRun,
    placed: Placed,
    weights: Vector,
    queries: Sequence[Examples],
    together: bool = False,
    audit: bool = True,
) -> StepGradients:
    """phi of every query at `weights`, checked against the engine's.

    run: whose loss and loop are meant. placed: its model. queries: batches of them.
    together: the mean loss of each batch is one query. audit: False leaves the comparison with the engine out.
    """
    rows: list[Tensor] = []
    wholes: list[Tensor] = []
    losses, taus = [], []
    ids: list[str] = []
    with unharmed(placed.model):
        for b, examples in enumerate(queries):
            n = len(examples.ids)
            phi, values, tau = _batch_gradients(run, placed, weights, examples, together)
            if b == 0 and audit:
                _audit(run, placed, weights, examples, phi, together)
            rows += phi
            wholes += _whole_gradients(run, placed, weights, examples, together)
            losses.append(values)
            taus.append([int(tau.max())] if together else tau)
            ids += [f"mean of {n} queries, batch {b + 1}"] if together else examples.ids
    slots = max(len(phi) for phi in rows)
    padded = [torch.nn.functional.pad(phi, (0, 0, 0, slots - len(phi))) for phi in rows]
    return StepGradients(torch.stack(padded), torch.stack(wholes), torch.cat(losses), np.concatenate(taus), tuple(ids))


def _batch_gradients(
    run: TrainingRun, placed: Placed, weights: Vector, examples: Examples, together: bool
) -> tuple[list[Tensor], Tensor, np.ndarray]:
    slots: dict[int, Vector] = {}

    def at(t: int) -> Vector:
        return slots.setdefault(t, weights.detach().clone().requires_grad_())

    with torch.enable_grad(), placed.weights_at(at):
        losses = losses_of(run, placed, examples.batch, len(examples.ids))
        if not placed.steps_seen:
            raise ValueError(NO_STEP)
        losses = losses.mean()[None] if together else losses
        of = [at(t) for t in range(placed.steps_seen + 1)]  # a cycle may lack some
        out = []
        for loss in losses:
            grads = torch.autograd.grad(loss, of, retain_graph=True, allow_unused=True)
            out.append(torch.stack([torch.zeros_like(w) if g is None else g for w, g in zip(of, grads, strict=True)]))
    tau = batch_tau(examples.batch, placed.steps_seen, len(examples.ids))
    return out, losses.detach(), np.asarray(tau)


def _whole_gradients(
    run: TrainingRun, placed: Placed, weights: Vector, examples: Examples, together: bool
) -> list[Tensor]:
    theta = weights.detach().requires_grad_()
    with torch.enable_grad(), placed.weights(theta):
        losses = losses_of(run, placed, examples.batch, len(examples.ids))
        losses = losses.mean()[None] if together else losses
        return [torch.autograd.grad(loss, theta, retain_graph=True)[0] for loss in losses]


def _audit(
    run: TrainingRun, placed: Placed, weights: Vector, examples: Examples, phi: list[Tensor], together: bool
) -> None:
    """Compare with the engine's step gradients, which come from hooks, and check that slots sum to the gradient."""
    with placed.copied_in(weights):
        features = featurize(placed.model, run.loss, examples.batch, loop=run.loop)
    theirs = torch.from_numpy(features.phi).to(weights.dtype)
    theirs = theirs.mean(dim=0, keepdim=True) if together else theirs
    starts = dict(zip(placed.shapes, np.cumsum([0, *placed.sizes[:-1]]), strict=True))
    most, size = tolerance_of({weights.dtype}), float(theirs.norm())
    for block in features.blocks:
        if block.name not in placed.in_body:
            continue
        a = torch.stack([p[1:, starts[block.name] : starts[block.name] + block.stop - block.start] for p in phi])
        b = theirs[:, : a.shape[1], block.start : block.stop]
        if float((a - b).norm()) > most * max(float(b.norm()), 1e-3 * size):  # some gradients are zero but for rounding
            raise AuditError(
                f"the step gradients of parameter {block.name!r} by untied weights differ from the engine's by "
                f"{float((a - b).norm()):.3g} of {float(b.norm()):.3g}; the model may keep weights of its own"
            )


class Swapped(NamedTuple):
    """What other weights do to the losses of q queries: everywhere, or in one slot only."""

    base: Float[np.ndarray, "q"]  # the loss with the base's weights
    whole: Float[np.ndarray, "q"]  # how it changes with the other weights everywhere
    by_slot: Float[np.ndarray, "q slots"]  # and with them in one slot only; slot 0 is outside the loop


def swap_effects(
    run: TrainingRun, placed: Placed, base: Vector, other: Vector, queries: Sequence[Examples], together: bool = False
) -> Swapped:
    """The changes of every query's loss with the weights `other` in one slot and `base` elsewhere, and everywhere.

    run: whose loss and loop are meant. placed: its model. queries: batches of them.
    together: the mean loss of each batch is one query.
    Parameters outside the body stand in slot 0, and are swapped with it.
    """
    parts = []
    with unharmed(placed.model), torch.no_grad():
        for examples in queries:
            at_base = _swapped_losses(run, placed, base, other, (), examples, together)
            slots = range(placed.steps_seen + 1)
            by_slot = [_swapped_losses(run, placed, base, other, (t,), examples, together) for t in slots]
            whole = _swapped_losses(run, placed, base, other, slots, examples, together)
            parts.append((at_base, whole - at_base, np.stack(by_slot, axis=1) - at_base[:, None]))
    most = max(part[2].shape[1] for part in parts)
    padded = [np.pad(by_slot, ((0, 0), (0, most - by_slot.shape[1]))) for _, _, by_slot in parts]
    return Swapped(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]), np.concatenate(padded))


def _swapped_losses(
    run: TrainingRun,
    placed: Placed,
    base: Vector,
    other: Vector,
    swapped: Collection[int],
    examples: Examples,
    together: bool,
) -> Float[np.ndarray, "n"]:
    with placed.weights_at(lambda t: other if t in swapped else base):
        losses = losses_of(run, placed, examples.batch, len(examples.ids)).double()
    return np.asarray((losses.mean()[None] if together else losses).cpu().numpy())
