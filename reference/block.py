"""A transformer block, pre-norm: x += o(attention(norm1 x)); x += down(act(up(norm2 x)))."""

from __future__ import annotations

from jaxtyping import Shaped

from sdi.inputs.looped_config import LoopedConfig

from .activations import activation
from .attention import attention
from .linear import linear
from .norms import norm
from .pullback import Array, Grads, Pullback, Weights


def block(x: Shaped[Array, "n L d"], w: Weights, name: str, config: LoopedConfig) -> tuple[Array, Pullback]:
    """The block called `name`, for instance `core.0`."""
    normed, norm1_back = norm(x, w, f"{name}.norm1", config)
    mixed, attention_back = attention(normed, w, f"{name}.attn", config)
    x = x + mixed
    normed, norm2_back = norm(x, w, f"{name}.norm2", config)
    hidden, mlp_back = mlp(normed, w, f"{name}.mlp", config)

    def back(dy: Shaped[Array, "n L d"]) -> tuple[Shaped[Array, "n L d"], Grads]:
        dnormed, mlp_grads = mlp_back(dy)
        dx, norm2_grads = norm2_back(dnormed)
        dy = dy + dx
        dnormed, attention_grads = attention_back(dy)
        dx, norm1_grads = norm1_back(dnormed)
        return dy + dx, {**norm1_grads, **attention_grads, **norm2_grads, **mlp_grads}

    return x + hidden, back


def blocks(x: Shaped[Array, "n L d"], w: Weights, names: list[str], config: LoopedConfig) -> tuple[Array, Pullback]:
    """Blocks one after the other; with no names, the identity."""
    backs = []
    for name in names:
        x, block_back = block(x, w, name, config)
        backs.append(block_back)

    def back(dy: Shaped[Array, "n L d"]) -> tuple[Shaped[Array, "n L d"], Grads]:
        grads = Grads()
        for block_back in reversed(backs):
            dy, block_grads = block_back(dy)
            grads.update(block_grads)
        return dy, grads

    return x, back


def mlp(x: Shaped[Array, "n L d"], w: Weights, name: str, config: LoopedConfig) -> tuple[Array, Pullback]:
    """down(act(up x))."""
    wide, up_back = linear(x, w, f"{name}.up")
    active, slope = activation(wide, config.activation)
    y, down_back = linear(active, w, f"{name}.down")

    def back(dy: Shaped[Array, "n L d"]) -> tuple[Shaped[Array, "n L d"], Grads]:
        dactive, down_grads = down_back(dy)
        dx, up_grads = up_back(dactive * slope)
        return dx, {**up_grads, **down_grads}

    return y, back
