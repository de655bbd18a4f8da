"""Multi-head self-attention: project to q, k, v; turn and norm q and k if asked; attend; project by o.

h heads of width c = d / h;  p = softmax(q k^T / sqrt(c));  y = o(p v)
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np
from jaxtyping import Shaped

from sdi.inputs.looped_config import LoopedConfig

from .linear import linear
from .norms import rms_norm
from .pullback import Array, Grads, Pullback, Weights
from .rotary import rotate


def attention(x: Shaped[Array, "n L d"], w: Weights, name: str, config: LoopedConfig) -> tuple[Array, Pullback]:
    """Self-attention over the tokens of each example. There is no padding mask: every token is a token."""
    (q, k, v), project_back = _project(x, w, name, config)
    q, q_back = _position(_split(q, config.heads), config)
    k, k_back = _position(_split(k, config.heads), config)
    mixed, mix_back = softmax_attention(q, k, _split(v, config.heads), config.causal)
    y, o_back = linear(_join(mixed), w, f"{name}.o")

    def back(dy: Shaped[Array, "n L d"]) -> tuple[Shaped[Array, "n L d"], Grads]:
        dmixed, o_grads = o_back(dy)
        dq, dk, dv = mix_back(_split(dmixed, config.heads))
        dx, grads = project_back([_join(q_back(dq)), _join(k_back(dk)), _join(dv)])
        return dx, {**grads, **o_grads}

    return y, back


def softmax_attention(
    q: Shaped[Array, "n h L c"], k: Shaped[Array, "n h L c"], v: Shaped[Array, "n h L c"], causal: bool
) -> tuple[Shaped[Array, "n h L c"], Callable[[Array], tuple[Array, Array, Array]]]:
    """p v with p = softmax(q k^T / sqrt(c)) over the tokens one may look at: all, or those not later than oneself."""
    length, c = q.shape[-2:]
    seen = np.tri(length, dtype=bool) if causal else np.ones((length, length), dtype=bool)
    scores = np.einsum("nhic,nhjc->nhij", q, k) / sqrt(c)
    # The shift is a constant that softmax cancels; taken from the real part, it is none of the derivative's business.
    shift = np.where(seen, np.real(scores), -np.inf).max(axis=-1, keepdims=True)
    weight = np.where(seen, np.exp(np.where(seen, scores - shift, 0)), 0)
    p = weight / weight.sum(axis=-1, keepdims=True)

    def back(dy: Shaped[Array, "n h L c"]) -> tuple[Array, Array, Array]:
        dp = np.einsum("nhic,nhjc->nhij", dy, v)
        dscores = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / sqrt(c)
        dq = np.einsum("nhij,nhjc->nhic", dscores, k)
        dk = np.einsum("nhij,nhic->nhjc", dscores, q)
        return dq, dk, np.einsum("nhij,nhic->nhjc", p, dy)

    return np.einsum("nhij,nhjc->nhic", p, v), back


def _project(
    x: Array, w: Weights, name: str, config: LoopedConfig
) -> tuple[list[Array], Callable[[list[Array]], tuple[Array, Grads]]]:
    """q, k, v: by one map whose rows hold the three in this order, or by three maps."""
    if config.fused_qkv:
        qkv, qkv_back = linear(x, w, f"{name}.qkv")
        return np.split(qkv, 3, axis=-1), lambda dqkv: qkv_back(np.concatenate(dqkv, axis=-1))
    parts = [linear(x, w, f"{name}.{part}") for part in "qkv"]

    def back(dqkv: list[Array]) -> tuple[Array, Grads]:
        dx, grads = np.zeros_like(x), Grads()
        for (_, part_back), dpart in zip(parts, dqkv, strict=True):
            dx_part, part_grads = part_back(dpart)
            dx = dx + dx_part
            grads.update(part_grads)
        return dx, grads

    return [y for y, _ in parts], back


def _position(x: Shaped[Array, "n h L c"], config: LoopedConfig) -> tuple[Array, Callable[[Array], Array]]:
    """What q and k go through before they meet: rotary, then RMSNorm over the head's width."""
    y = rotate(x) if config.rotary else x
    y, norm_back = rms_norm(y) if config.qk_norm else (y, lambda dy: dy)

    def back(dy: Array) -> Array:
        dx = norm_back(dy)
        return rotate(dx, sign=-1) if config.rotary else dx

    return y, back


def _split(x: Shaped[Array, "n L d"], heads: int) -> Shaped[Array, "n h L c"]:
    n, length, d = x.shape
    return x.reshape(n, length, heads, d // heads).transpose(0, 2, 1, 3)


def _join(x: Shaped[Array, "n h L c"]) -> Shaped[Array, "n L d"]:
    n, heads, length, c = x.shape
    return x.transpose(0, 2, 1, 3).reshape(n, length, heads * c)
