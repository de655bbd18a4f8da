"""From the state at the read-out step to logits: coda, norm, head, softcap."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from sdi.inputs.looped_config import LoopedConfig

from .block import blocks
from .linear import linear
from .norms import norm
from .pullback import Array, Grads, Pullback, Weights, identity


def read_out(s: Shaped[Array, "n L d"], w: Weights, config: LoopedConfig) -> tuple[Array, Pullback]:
    """Logits (n, L, classes)."""
    x, coda_back = blocks(s, w, [f"coda.{i}" for i in range(config.coda)], config)
    x, norm_back = norm(x, w, "norm_out", config) if config.norm_out else (x, identity)
    raw, head_back = linear(x, w, "head")
    cap = config.softcap
    squash = None if cap is None else np.tanh(raw / cap)
    logits = raw if squash is None else cap * squash

    def back(dlogits: Shaped[Array, "n L classes"]) -> tuple[Shaped[Array, "n L d"], Grads]:
        draw = dlogits if squash is None else dlogits * (1 - squash * squash)
        dx, head_grads = head_back(draw)
        dx, norm_grads = norm_back(dx)
        ds, coda_grads = coda_back(dx)
        return ds, {**coda_grads, **norm_grads, **head_grads}

    return logits, back
