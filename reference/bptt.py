"""The backward pass: backpropagation through time, by hand.

    dlogits -> read-out -> ds at step r_i -> step r_i, ..., 2, 1 -> de -> read-in

At every step the shared weights receive a gradient of their own, phi[t]. With truncation to the last k steps,
the state that enters step r_i - k + 1 is a constant: earlier steps receive nothing, and what they would pass on
to e is dropped. e itself is never a constant.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Shaped

from sdi.inputs.looped_config import LoopedConfig

from .batch import Inputs
from .pullback import Array
from .step import in_loop
from .unroll import Trace


@dataclass(frozen=True, eq=False)
class Gradients:
    """Per-example gradients of every parameter: through each loop step, or outside the loop."""

    phi: Mapping[str, Shaped[Array, "n tau *shape"]]  # parameters of the loop
    outside: Mapping[str, Shaped[Array, "n *shape"]]  # all others


def bptt(trace: Trace, dlogits: Shaped[Array, "n L classes"], inputs: Inputs, config: LoopedConfig) -> Gradients:
    """From the gradient of each example's loss at its logits to the gradients of every parameter."""
    ds, read_out_grads = trace.read_out_back(dlogits)
    de = np.zeros_like(ds)
    n, tau = len(ds), int(inputs.tau.max())
    phi = {name: np.zeros((n, tau, *shape), dtype=ds.dtype) for name, shape in config.shapes().items() if in_loop(name)}
    for t in range(len(trace.steps), 0, -1):
        rows, step_back = trace.steps[t - 1]
        de_t, ds_t, grads = step_back(ds[rows])
        live = _live(t, inputs.readout[rows], config.bptt)
        ds[rows] = 0
        ds[rows[live]] = ds_t[live]
        de[rows[live]] += de_t[live]
        for name, grad in grads.items():
            phi[name][rows[live], t - 1] = grad[live]
    if config.state == "embedding":
        de = de + ds
    return Gradients(phi, {**trace.read_in_back(de), **read_out_grads})


def _live(t: int, readout: Array, k: int | None) -> Array:
    """Which examples keep a gradient at step t: those that read out at most k - 1 steps later."""
    return np.ones_like(readout, dtype=bool) if k is None else t > readout - k
