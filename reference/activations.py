"""The nonlinearity of the MLP: gelu, its tanh approximation, or the square of relu."""

from __future__ import annotations

from math import pi, sqrt

import numpy as np
from jaxtyping import Shaped
from scipy.special import erf

from .pullback import Array


def activation(x: Shaped[Array, "..."], kind: str) -> tuple[Shaped[Array, "..."], Shaped[Array, "..."]]:
    """The value and the derivative at every entry.

    >>> activation(np.array([-1.0, 3.0]), "relu2")
    (array([0., 9.]), array([0., 6.]))
    """
    if kind == "gelu":
        return _gelu(x)
    if kind == "gelu_tanh":
        return _gelu_tanh(x)
    if kind == "relu2":
        return _relu2(x)
    raise ValueError(f"activation must be 'gelu', 'gelu_tanh' or 'relu2', got {kind!r}")


def _gelu(x: Array) -> tuple[Array, Array]:
    """x P(Z <= x) for a standard normal Z."""
    below = (1 + erf(x / sqrt(2))) / 2
    density = np.exp(-x * x / 2) / sqrt(2 * pi)
    return x * below, below + x * density


def _gelu_tanh(x: Array) -> tuple[Array, Array]:
    """x (1 + tanh u) / 2 with u = sqrt(2 / pi) (x + 0.044715 x^3)."""
    u = sqrt(2 / pi) * (x + 0.044715 * x * x * x)
    du = sqrt(2 / pi) * (1 + 3 * 0.044715 * x * x)
    tanh = np.tanh(u)
    return x * (1 + tanh) / 2, (1 + tanh) / 2 + x * (1 - tanh * tanh) * du / 2


def _relu2(x: Array) -> tuple[Array, Array]:
    """x^2 where x is positive; the sign is that of the real part."""
    relu = np.where(np.real(x) > 0, x, 0)
    return relu * relu, 2 * relu
