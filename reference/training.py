"""Training by SGD with momentum, and its derivative by each example's weight: the witness for derivatives through it.

The derivative is forward-mode, by a complex step: the run is carried out once for every training example with its
weight at 1 + ih, and the imaginary part of the last weights, divided by h, is their derivative. h is so small that its
square vanishes, and nothing is subtracted, so the result is exact to rounding. There is no adjoint, and no autograd.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .gradients import gradients
from .model import LoopedTransformer
from .pullback import Array

H = 1e-30


class StepDerivatives(NamedTuple):
    """Of n training examples and q queries: d loss_j / d w_i through each step of the query, and outside its loop."""

    steps: Float[Array, "n q tau"]
    outside: Float[Array, "n q"]


def train(
    model: LoopedTransformer,
    loss: Any,
    batches: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
    momentum: float = 0.0,
    weights: Mapping[str, complex] | None = None,
) -> LoopedTransformer:
    """The model after one update of SGD for each batch, on the mean of its examples' weighted losses.

    model: as training begins. loss: as in `reference/loss.py`. batches: with the ids of examples under "id".
    rates: one for each batch. momentum: of the running sum of gradients. weights: of examples by id; 1 by default.
    """
    theta = dict(model.weights)
    sums: dict[str, Array] = {}
    for batch, rate in zip(batches, rates, strict=True):
        grads = gradients(LoopedTransformer(model.config, theta), loss, batch)
        each = np.array([(weights or {}).get(str(i), 1.0) for i in batch["id"]]) / len(batch["id"])
        for name in theta:
            own = grads.phi[name].sum(axis=1) if name in grads.phi else grads.outside[name]
            g = np.tensordot(each, own, axes=1)
            sums[name] = momentum * sums[name] + g if name in sums else g
            theta[name] = theta[name] - rate * sums[name]
    return LoopedTransformer(model.config, theta)


def through_training(
    model: LoopedTransformer,
    loss: Any,
    batches: Sequence[Mapping[str, Any]],
    rates: Sequence[float],
    query: Mapping[str, Any],
    momentum: float = 0.0,
) -> StepDerivatives:
    """The derivative of every query's loss, through each of its steps, by the weight of every training example.

    model, loss, batches, rates, momentum: of training, as in `train`. query: a batch of queries.
    Training examples are in the order in which training meets them.
    """
    ids = list(dict.fromkeys(str(i) for batch in batches for i in batch["id"]))
    phi = gradients(train(model, loss, batches, rates, momentum), loss, query)
    q = len(query["tokens"])
    steps, outside = [], []
    for i in ids:
        end = train(model, loss, batches, rates, momentum, {i: 1 + 1j * H})
        moved = {name: np.imag(w) / H for name, w in end.weights.items()}
        steps.append(sum(p.reshape(*p.shape[:2], -1) @ moved[name].ravel() for name, p in phi.phi.items()))
        outside.append(sum(p.reshape(q, -1) @ moved[name].ravel() for name, p in phi.outside.items()))
    return StepDerivatives(np.array(steps), np.array(outside))
