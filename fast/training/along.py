"""Scores along training, without differentiating through it: inner products of gradients as training met them.

Each is sum_k rate_k share_k <P g_i, phi_j[t]>, with one matrix P for all steps of a query, so the steps still add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from sdi.inputs.batches import Examples
from sdi.retraining.optimisers import Adam

from ..guard.restore_model import unharmed
from .example_gradients import each_once, example_gradients
from .placed import Vector
from .preconditioned import Sketched, times_inverse_fisher
from .query_steps import query_gradients
from .replay import Replay
from .update import State

Tell = Callable[[int, int], None]


@dataclass(frozen=True)
class Precondition:
    """What multiplies gradients. m, seed: of the sketches that "fisher" may be taken of."""

    name: str | None = None
    damping: float = 0.1
    m: int | None = None
    seed: int = 0

    @property
    def of_training(self) -> bool:
        """Whether it takes the gradients of all training examples."""
        return self.name in ("fisher", "kronecker")


class Scores(NamedTuple):
    """Of n training examples and q queries; slot 0 is outside the loop. Variances are of sketching, or 0."""

    values: Float[np.ndarray, "n q slots"]
    variance: Float[np.ndarray, "n q slots"]
    whole_variance: Float[np.ndarray, "n q"]


def met_on_the_way(replay: Replay, phi: Float[Tensor, "q slots D"], by: Precondition, tell: Tell) -> Scores:
    """Gradients at the updates that examples were met in, phi at the end."""
    run = replay.run
    flat = phi.flatten(0, 1)
    sketch = None if by.m is None else Sketched(replay.placed, by.m, by.seed)
    width = phi.shape[0] * phi.shape[1] if sketch is None else sketch.map.size
    total = torch.zeros(len(run.ids), width, dtype=torch.float64)
    if sketch is None and by.of_training:
        flat = times_inverse_fisher(replay, flat, by.damping, replay.weights, by.name == "kronecker")
    with unharmed(replay.placed.model):
        for k, state in replay.backwards():
            grads = example_gradients(replay, k, state[0])
            vectors = flat
            if by.name == "adam":
                vectors = flat * adam_scale(replay, k, replay.next(k, state))
            if by.name == "cosine":
                grads = grads / grads.norm(dim=1, keepdim=True).clamp(min=1e-30)
            found = grads @ vectors.T if sketch is None else sketch(grads)
            total.index_add_(0, torch.from_numpy(run.rows(k)), found.double().cpu(), alpha=run.rates[k] * run.share(k))
            tell(run.updates - k, run.updates - replay.first)
    if sketch is None:
        return _exact(total.view(-1, *phi.shape[:2]))
    G = _all_sketched(replay, replay.weights, sketch)
    made = sketch.scores(G, total.to(phi), sketch(flat).view(*phi.shape[:2], -1), by.damping)
    return _as_numpy(made, 1.0)


def at_checkpoints(
    replay: Replay, queries: list[Examples], together: bool, checkpoints: int, by: Precondition, tell: Tell
) -> Scores:
    """TracIn split over steps: all gradients, of both sides, at a few states of training, spread evenly."""
    run = replay.run
    marks = np.unique(np.linspace(replay.first, run.updates, checkpoints + 1).round().astype(int))[1:]
    parts = []
    for done, mark in enumerate(marks):
        state = replay.last if mark == run.updates else replay.state_before(int(mark))
        rate = run.rates[int(mark) - 1]
        found = query_gradients(run, replay.placed, state[0], queries, together, audit=done == 0)
        phi = found.phi
        if by.name == "cosine":
            # One length for all steps of a query: the same for each, so that they still add up.
            phi = phi / found.whole.norm(dim=1)[:, None, None].clamp(min=1e-30)
        if by.m is None:
            made = _exact(_dense_scores(replay, state, int(mark), phi, by) * rate)
        else:
            # A sketch of its own for each checkpoint: their errors are independent, and variances add up.
            sketch = Sketched(replay.placed, by.m, _own_seed(by.seed, int(mark)))
            G = _all_sketched(replay, state[0], sketch)
            sketched = sketch(phi.flatten(0, 1)).view(*phi.shape[:2], -1)
            made = _as_numpy(sketch.scores(G, G, sketched, by.damping), rate)
        parts.append(made)
        tell(done + 1, len(marks))
    return Scores(*(np.sum(each, axis=0) for each in zip(*parts, strict=True)))


def _dense_scores(
    replay: Replay, state: State, mark: int, phi: Float[Tensor, "q slots D"], by: Precondition
) -> Float[Tensor, "n q slots"]:
    flat = phi.flatten(0, 1)
    if by.of_training:
        flat = times_inverse_fisher(replay, flat, by.damping, state[0], by.name == "kronecker")
    elif by.name == "adam":
        flat = flat * adam_scale(replay, mark - 1, state)
    scores = phi.new_zeros(len(replay.run.ids), len(flat))
    with unharmed(replay.placed.model):
        for rows, grads in each_once(replay, state[0]):
            if by.name == "cosine":
                grads = grads / grads.norm(dim=1, keepdim=True).clamp(min=1e-30)
            scores[torch.from_numpy(rows).to(scores.device)] = grads @ flat.T
    return scores.view(-1, *phi.shape[:2])


def _all_sketched(replay: Replay, weights: Vector, sketch: Sketched) -> Float[Tensor, "n M"]:
    """Sketches of the gradients of all training examples, in the order of `run.ids`."""
    G = weights.new_zeros(len(replay.run.ids), sketch.map.size)
    with unharmed(replay.placed.model):
        for rows, grads in each_once(replay, weights):
            G[torch.from_numpy(rows).to(G.device)] = sketch(grads)
    return G


def _own_seed(seed: int, mark: int) -> int:
    return int(np.random.SeedSequence([seed, mark]).generate_state(1)[0])


def _exact(values: Float[Tensor, "n q slots"]) -> Scores:
    made = values.double().cpu().numpy()
    return Scores(made, np.zeros_like(made), np.zeros(made.shape[:2]))


def _as_numpy(made: tuple[Tensor, Tensor, Tensor], rate: float) -> Scores:
    values, variance, whole = (x.double().cpu().numpy() for x in made)
    return Scores(rate * values, rate**2 * variance, rate**2 * whole)


def adam_scale(replay: Replay, k: int, after: State) -> Vector:
    """What Adam divides by, as a factor: of the second moments after update k."""
    o = replay.run.optimiser
    assert isinstance(o, Adam)
    return 1 / ((after[2] / (1 - o.betas[1] ** (k + 1)) + o.eps_root).sqrt() + o.eps)
