"""The forward pass: read in, apply the loop until each example's read-out step, read out.

Example i's state stops changing after its read-out step r_i: later steps cannot be seen by its loss, so they
are not taken, and their step gradients are zero because nothing is ever written there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int, Shaped

from sdi.inputs.looped_config import LoopedConfig

from .batch import Inputs
from .pullback import Array, Grads, Pullback, Weights
from .read_in import read_in
from .read_out import read_out
from .step import StepPullback, step


@dataclass(frozen=True, eq=False)
class Trace:
    """The logits of a batch, and the pullback of each part of the forward pass."""

    logits: Shaped[Array, "n L classes"]
    read_in_back: Callable[[Array], Grads]
    steps: list[tuple[Int[Array, "rows"], StepPullback]]  # the examples that took step 1, 2, ...
    read_out_back: Pullback


def unroll(
    inputs: Inputs, weights: Weights, config: LoopedConfig, weights_at: Callable[[int], Weights] | None = None
) -> Trace:
    """Run the model. `weights_at(t)`, if given, are the weights that step t uses in place of the shared ones."""
    e, read_in_back = read_in(inputs.tokens, weights, config)
    s = e if config.state == "embedding" else np.zeros_like(e)
    steps = []
    for t in range(1, inputs.readout.max() + 1):
        rows = np.flatnonzero(t <= inputs.readout)
        if config.bptt is not None and t > 1:
            first = np.flatnonzero(t == inputs.readout - config.bptt + 1)
            s = _put(s, first, _detach(s[first]))
        new, step_back = step(e[rows], s[rows], weights if weights_at is None else weights_at(t), config)
        s = _put(s, rows, new)
        steps.append((rows, step_back))
    logits, read_out_back = read_out(s, weights, config)
    return Trace(logits, read_in_back, steps, read_out_back)


def _put(s: Array, rows: Int[Array, "rows"], new: Array) -> Array:
    out = s.astype(np.result_type(s, new))
    out[rows] = new
    return out


def _detach(s: Array) -> Array:
    """The state as a constant. Under complex-step differentiation the imaginary part is the derivative: drop it."""
    return np.real(s)
