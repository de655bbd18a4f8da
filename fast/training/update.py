"""One update of an optimiser as a pure function of tensors, number for number that of `torch.optim` on one device.

The state is a matrix (slots, D): the weights, the optimiser's moments, and, if there is one, the averaged weights.
Everything is differentiable once; where Adam's second moment is exactly zero, so is the first, and the root's
derivative, which would be infinite, is taken as zero: the limit of the update's.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from sdi.retraining.optimisers import SGD, Adam, AdamW, Optimiser
from sdi.retraining.training_run import TrainingRun

CLIP_EPS = 1e-6  # of torch.nn.utils.clip_grad_norm_
State = Float[Tensor, "slots D"]


def first_state(run: TrainingRun, weights: Float[Tensor, "D"]) -> State:
    """The state before the first update: no moments, and the average at the first weights."""
    rows = [weights, *(torch.zeros_like(weights) for _ in range(run.optimiser.moments))]
    return torch.stack([*rows, *([weights] if run.memories is not None else [])])


def seen_by_queries(run: TrainingRun, state: State) -> Float[Tensor, "D"]:
    """The weights that queries see: the averaged ones, if there are some."""
    return state[0] if run.memories is None else state[-1]


def update(run: TrainingRun, k: int, state: State, gradient: Float[Tensor, "D"], sizes: Sequence[int]) -> State:
    """The state after update k (from 0). sizes: of the parameters in the vector, for the norm that clips."""
    if run.clip is not None:
        gradient = clipped(gradient, run.clip, sizes)
    new = step(run.optimiser, k, run.rates[k], state, gradient)
    if run.memories is not None:
        new = torch.cat([new, state[-1].lerp(new[0], 1 - run.memories[k])[None]])
    return new


def clipped(gradient: Float[Tensor, "D"], most: float, sizes: Sequence[int]) -> Float[Tensor, "D"]:
    """The gradient, shortened to norm `most` if it is longer."""
    norms = [torch.linalg.vector_norm(part) for part in torch.split(gradient, list(sizes))]
    return gradient * (most / (torch.linalg.vector_norm(torch.stack(norms)) + CLIP_EPS)).clamp(max=1.0)


def step(optimiser: Optimiser, k: int, rate: float, state: State, gradient: Float[Tensor, "D"]) -> State:
    """Weights and moments after update k."""
    weights = state[0]
    if isinstance(optimiser, SGD):
        return _sgd(optimiser, k, rate, state, gradient)
    if isinstance(optimiser, AdamW):
        weights = weights * (1 - rate * optimiser.weight_decay)
    elif optimiser.weight_decay:
        gradient = gradient.add(weights, alpha=optimiser.weight_decay)
    return _adam(optimiser, k, rate, weights, state, gradient)


def _sgd(o: SGD, k: int, rate: float, state: State, gradient: Float[Tensor, "D"]) -> State:
    weights = state[0]
    if o.weight_decay:
        gradient = gradient.add(weights, alpha=o.weight_decay)
    if not o.momentum:
        return weights.add(gradient, alpha=-rate)[None]
    sums = gradient if k == 0 else (state[1] * o.momentum).add(gradient, alpha=1 - o.dampening)
    direction = gradient.add(sums, alpha=o.momentum) if o.nesterov else sums
    return torch.stack([weights.add(direction, alpha=-rate), sums])


def _adam(o: Adam, k: int, rate: float, weights: Tensor, state: State, gradient: Tensor) -> State:
    beta1, beta2 = o.betas
    first = state[1].lerp(gradient, 1 - beta1)
    second = (state[2] * beta2).addcmul(gradient, gradient, value=1 - beta2)
    correction1, correction2 = 1 - beta1 ** (k + 1), 1 - beta2 ** (k + 1)
    if o.eps_root:
        root = (second / correction2 + o.eps_root).sqrt()
    else:
        zero = second == 0
        root = torch.where(zero, 0.0, torch.where(zero, 1.0, second).sqrt()) / correction2**0.5
    return torch.stack([weights.addcdiv(first, root + o.eps, value=-(rate / correction1)), first, second])
