"""One step of the loop: s <- [loop_norm](core(inject(e, s)))."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Shaped

from sdi.inputs.looped_config import LoopedConfig

from .block import blocks
from .linear import linear
from .norms import norm
from .pullback import Array, Grads, Weights, identity

StepPullback = Callable[[Array], tuple[Array, Array, Grads]]


def step(
    e: Shaped[Array, "n L d"], s: Shaped[Array, "n L d"], w: Weights, config: LoopedConfig
) -> tuple[Shaped[Array, "n L d"], StepPullback]:
    """(next state, pullback): the pullback takes its gradient to (de, ds, grads), all through this step alone."""
    x, inject_back = inject(e, s, w, config)
    x, core_back = blocks(x, w, [f"core.{i}" for i in range(config.core)], config)
    y, norm_back = norm(x, w, "loop_norm", config) if config.loop_norm else (x, identity)

    def back(dy: Shaped[Array, "n L d"]) -> tuple[Array, Array, Grads]:
        dx, norm_grads = norm_back(dy)
        dx, core_grads = core_back(dx)
        de, ds, inject_grads = inject_back(dx)
        return de, ds, {**inject_grads, **core_grads, **norm_grads}

    return y, back


def inject(e: Array, s: Array, w: Weights, config: LoopedConfig) -> tuple[Array, StepPullback]:
    """The input joins the state: s, s + e, or W concat(e, s)."""
    if config.injection == "none":
        return s, lambda dx: (np.zeros_like(dx), dx, {})
    if config.injection == "add":
        return s + e, lambda dx: (dx, dx, {})
    x, linear_back = linear(np.concatenate([e, s], axis=-1), w, "inject")

    def back(dx: Shaped[Array, "n L d"]) -> tuple[Array, Array, Grads]:
        joint, grads = linear_back(dx)
        return joint[..., : config.d], joint[..., config.d :], grads

    return x, back


def in_loop(name: str) -> bool:
    """Whether a parameter is used inside the loop; every other one is used before it or after it.

    >>> in_loop("core.0.attn.q.weight"), in_loop("coda.0.attn.q.weight")
    (True, False)
    """
    return name.split(".")[0] in ("inject", "core", "loop_norm")
