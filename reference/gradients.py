"""Per-example gradients by name: step by step, or whole."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Shaped

from .batch import read_inputs
from .bptt import Gradients, bptt
from .loss import Loss
from .model import LoopedTransformer
from .pullback import Array
from .unroll import unroll


def gradient(model: LoopedTransformer, loss: Loss, batch: Mapping[str, Any]) -> dict[str, Shaped[Array, "n *shape"]]:
    """The gradient of each example's loss for every parameter, by name, in the order of `config.shapes()`.

    model: a `LoopedTransformer`. loss: `TokenCrossEntropy`, or one like it. batch: as in `reference/batch.py`.
    """
    grads = gradients(model, loss, batch)
    return {
        name: grads.phi[name].sum(axis=1) if name in grads.phi else grads.outside[name]
        for name in model.config.shapes()
    }


def step_gradients(
    model: LoopedTransformer, loss: Loss, batch: Mapping[str, Any]
) -> dict[str, Shaped[Array, "n tau *shape"]]:
    """phi (n, tau, *shape) of every parameter of the loop, by name: the part of its gradient from each step.

    model, loss, batch: as in `gradient`.
    """
    return dict(gradients(model, loss, batch).phi)


def gradients(model: LoopedTransformer, loss: Any, batch: Mapping[str, Any]) -> Gradients:
    """Both at once, from one forward and one backward pass."""
    check_pass(model, loss)
    inputs = read_inputs(batch, model.config)
    trace = unroll(inputs, model.weights, model.config)
    dlogits = np.asarray(loss.dlogits(trace.logits, batch))
    if dlogits.shape != trace.logits.shape:
        raise ValueError(f"loss.dlogits must return the shape of logits, {trace.logits.shape}, got {dlogits.shape}")
    return bptt(trace, dlogits, inputs, model.config)


def check_pass(model: Any, loss: Any) -> None:
    """Refuse a model or a loss whose derivatives are not written by hand here."""
    if not isinstance(model, LoopedTransformer):
        raise TypeError(
            f"model must be a reference LoopedTransformer, got {type(model).__name__}; for another model use "
            "sdi.backend('fast')"
        )
    if not callable(getattr(loss, "dlogits", None)):
        raise TypeError(
            f"loss must have a method dlogits(logits, batch), its gradient written by hand, got {loss!r}: there is "
            "no autograd here; use sdi.reference.token_cross_entropy or give yours one"
        )
