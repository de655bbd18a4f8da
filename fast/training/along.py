"""Scores along training, without differentiating through it: inner products of gradients as training met them.

Each is sum_k rate_k share_k <P g_i, phi_j[t]>, with one matrix P for all steps of a query, so the steps still add up.
Per-example gradients are dense, one batch at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from sdi.inputs.batches import Examples
from sdi.retraining.optimisers import Adam

from ..guard.restore_model import unharmed
from .batch_gradient import losses_of, recorded_random_numbers
from .placed import Vector
from .query_steps import query_gradients
from .replay import Replay
from .update import State

Tell = Callable[[int, int], None]
Scores = Float[np.ndarray, "n q slots"]


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


def met_on_the_way(
    replay: Replay, phi: Float[Tensor, "q slots D"], precondition: str | None, damping: float, tell: Tell
) -> Scores:
    """Gradients at the updates that examples were met in, phi at the end."""
    run = replay.run
    total = np.zeros((len(run.ids), *phi.shape[:2]))
    flat = phi.flatten(0, 1)
    if precondition == "fisher":
        flat = damped_fisher(replay, flat, damping)
    with unharmed(replay.placed.model):
        for k, state in replay.backwards():
            grads = example_gradients(replay, k, state[0])
            vectors = flat
            if precondition == "adam":
                vectors = flat * adam_scale(replay, k, replay.next(k, state))
            if precondition == "cosine":
                grads = grads / grads.norm(dim=1, keepdim=True).clamp(min=1e-30)
            found = (grads @ vectors.T).double().cpu().numpy().reshape(-1, *phi.shape[:2])
            np.add.at(total, run.rows(k), run.rates[k] * run.share(k) * found)
            tell(run.updates - k, run.updates - replay.first)
    return total


def at_checkpoints(
    replay: Replay,
    queries: list[Examples],
    together: bool,
    checkpoints: int,
    precondition: str | None,
    damping: float,
    tell: Tell,
) -> Scores:
    """TracIn split over steps: all gradients, of both sides, at a few states of training, spread evenly."""
    run = replay.run
    marks = np.unique(np.linspace(replay.first, run.updates, checkpoints + 1).round().astype(int))[1:]
    total: Scores | None = None
    for done, mark in enumerate(marks):
        state = replay.last if mark == run.updates else replay.state_before(int(mark))
        weights, rate = state[0], run.rates[min(int(mark), run.updates) - 1]
        found = query_gradients(run, replay.placed, weights, queries, together, audit=done == 0)
        flat = found.phi.flatten(0, 1)
        if precondition == "fisher":
            flat = damped_fisher(replay, flat, damping, weights)
        elif precondition == "adam":
            flat = flat * adam_scale(replay, int(mark) - 1, state)
        elif precondition == "cosine":
            # One length for all steps of a query: the same for each, so that they still add up.
            flat = (found.phi / found.whole.norm(dim=1)[:, None, None].clamp(min=1e-30)).flatten(0, 1)
        scores = np.zeros((len(run.ids), *found.phi.shape[:2]))
        with unharmed(replay.placed.model):
            for rows, grads in _each_once(replay, weights):
                grads = grads / grads.norm(dim=1, keepdim=True).clamp(min=1e-30) if precondition == "cosine" else grads
                scores[rows] = (grads @ flat.T).double().cpu().numpy().reshape(-1, *found.phi.shape[:2])
        total = rate * scores if total is None else total + rate * scores
        tell(done + 1, len(marks))
    assert total is not None
    return total


def adam_scale(replay: Replay, k: int, after: State) -> Vector:
    """What Adam divides by, as a factor: of the second moments after update k."""
    o = replay.run.optimiser
    assert isinstance(o, Adam)
    return 1 / ((after[2] / (1 - o.betas[1] ** (k + 1)) + o.eps_root).sqrt() + o.eps)


def damped_fisher(
    replay: Replay, vectors: Float[Tensor, "A D"], damping: float, weights: Vector | None = None
) -> Float[Tensor, "A D"]:
    """(F + lambda)^-1 v for each parameter tensor apart; F = mean of g_i g_i^T, lambda = damping x its mean diagonal.

    Solved in the space of examples, where it is exact: n x n instead of D x D.
    """
    weights = replay.weights if weights is None else weights
    with unharmed(replay.placed.model):
        grads = torch.cat([g for _, g in _each_once(replay, weights)])
    out = []
    sizes = replay.placed.sizes
    for g, v in zip(torch.split(grads, sizes, dim=1), torch.split(vectors, sizes, dim=1), strict=True):
        n, d = g.shape
        level = damping * float(g.square().sum()) / (n * d)
        if level == 0:  # no example reaches this tensor: nothing to divide by, and nothing to score
            out.append(torch.zeros_like(v))
            continue
        gram = g @ g.T + n * level * torch.eye(n, dtype=g.dtype, device=g.device)
        out.append((v - torch.linalg.solve(gram, g @ v.T).T @ g) / level)
    return torch.cat(out, dim=1)


def _each_once(replay: Replay, weights: Vector) -> Iterator[tuple[np.ndarray, Float[Tensor, "n D"]]]:
    """(places in `run.ids`, gradients) of every training example once, batch by batch."""
    seen: set[int] = set()
    for k in range(replay.run.updates):
        rows = replay.run.rows(k)
        fresh = [i for i, row in enumerate(rows) if row not in seen and row not in rows[:i]]
        if fresh:
            seen.update(int(row) for row in rows)
            yield rows[fresh], example_gradients(replay, k, weights)[fresh]
