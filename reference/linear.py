"""A linear map: y = W x + b at every token."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from .pullback import Array, Grads, Pullback, Weights


def linear(x: Shaped[Array, "n L d_in"], w: Weights, name: str) -> tuple[Shaped[Array, "n L d_out"], Pullback]:
    """The map of `{name}.weight` (d_out, d_in) and, if there is one, `{name}.bias` (d_out,).

    With delta = dy and a = x, the gradient of W for one example is the sum over its tokens of outer(delta, a).
    """
    weight, bias = w[f"{name}.weight"], w.get(f"{name}.bias")
    y = np.einsum("oi,nli->nlo", weight, x)
    if bias is not None:
        y = y + bias

    def back(dy: Shaped[Array, "n L d_out"]) -> tuple[Shaped[Array, "n L d_in"], Grads]:
        grads = {f"{name}.weight": np.einsum("nlo,nli->noi", dy, x)}
        if bias is not None:
            grads[f"{name}.bias"] = np.einsum("nlo->no", dy)
        return np.einsum("oi,nlo->nli", weight, dy), grads

    return y, back
