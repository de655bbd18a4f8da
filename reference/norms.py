"""LayerNorm, with a weight and a bias, and RMSNorm, without parameters; both over the last axis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Shaped

from sdi.inputs.looped_config import LoopedConfig

from .pullback import Array, Grads, Pullback, Weights

LAYER_EPS = 1e-5
RMS_EPS = 1e-6


def norm(x: Shaped[Array, "n L d"], w: Weights, name: str, config: LoopedConfig) -> tuple[Array, Pullback]:
    """The norm called `name`, of the kind the config asks for."""
    if config.norm == "layer":
        return layer_norm(x, w, name)
    y, back = rms_norm(x)
    return y, lambda dy: (back(dy), {})


def layer_norm(x: Shaped[Array, "n L d"], w: Weights, name: str) -> tuple[Array, Pullback]:
    """y = weight * (x - mean) / sqrt(variance + eps) + bias."""
    weight, bias = w[f"{name}.weight"], w[f"{name}.bias"]
    centred = x - _mean(x)
    scale = 1 / np.sqrt(_mean(centred * centred) + LAYER_EPS)
    unit = centred * scale

    def back(dy: Shaped[Array, "n L d"]) -> tuple[Shaped[Array, "n L d"], Grads]:
        dunit = dy * weight
        dx = scale * (dunit - _mean(dunit) - unit * _mean(dunit * unit))
        return dx, {
            f"{name}.weight": np.einsum("nld,nld->nd", dy, unit),
            f"{name}.bias": np.einsum("nld->nd", dy),
        }

    return unit * weight + bias, back


def rms_norm(x: Shaped[Array, "... d"]) -> tuple[Array, Callable[[Array], Array]]:
    """y = x / sqrt(mean(x^2) + eps).

    >>> rms_norm(np.array([3.0, -3.0]))[0].round(6)
    array([ 1., -1.])
    """
    scale = 1 / np.sqrt(_mean(x * x) + RMS_EPS)
    y = x * scale

    def back(dy: Shaped[Array, "... d"]) -> Shaped[Array, "... d"]:
        return scale * (dy - y * _mean(dy * y))

    return y, back


def _mean(x: Shaped[Array, "... d"]) -> Shaped[Array, "... 1"]:
    return np.asarray(x.mean(axis=-1, keepdims=True))
