"""From tokens to the injected input e: embedding or one-hot map, positions, norm, prelude."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Int, Shaped

from sdi.inputs.looped_config import LoopedConfig

from .block import blocks
from .linear import linear
from .norms import norm
from .pullback import Array, Grads, Weights, identity


def read_in(
    tokens: Int[Array, "n L"], w: Weights, config: LoopedConfig
) -> tuple[Shaped[Array, "n L d"], Callable[[Array], Grads]]:
    """(e, pullback): the injected input, and a function from de to the gradients of the parameters that made e."""
    x, embed_back = _embed(tokens, w, config)
    length = tokens.shape[1]
    if config.positions:
        x = x + w["positions.weight"][:length]
    x, norm_back = norm(x, w, "norm_in", config) if config.norm_in else (x, identity)
    e, prelude_back = blocks(x, w, [f"prelude.{i}" for i in range(config.prelude)], config)

    def back(de: Shaped[Array, "n L d"]) -> Grads:
        dx, prelude_grads = prelude_back(de)
        dx, norm_grads = norm_back(dx)
        grads = embed_back(dx)
        if config.positions:
            grads["positions.weight"] = np.zeros((len(dx), config.length, config.d), dtype=dx.dtype)
            grads["positions.weight"][:, :length] = dx
        return {**grads, **norm_grads, **prelude_grads}

    return e, back


def _embed(tokens: Int[Array, "n L"], w: Weights, config: LoopedConfig) -> tuple[Array, Callable[[Array], Grads]]:
    """Row `token` of the embedding (vocab, d), or a linear map (d, vocab) of the token as a one-hot vector."""
    onehot = np.eye(config.vocab)[tokens]
    if config.read_in == "onehot":
        x, linear_back = linear(onehot, w, "read_in")
        return x, lambda dx: linear_back(dx)[1]
    return w["read_in.weight"][tokens], lambda dx: {"read_in.weight": np.einsum("nlv,nld->nvd", onehot, dx)}
