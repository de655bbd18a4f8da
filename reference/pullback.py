"""How a layer and its derivative are written in this room.

A layer is a function that returns its output `y` and its pullback: a function from `dy`, the gradient of each
example's loss with respect to y, to `dx` and the gradients of the layer's parameters. A pullback is written by
hand next to the forward it belongs to, and closes over what it needs from it.

    x, y     (n, L, d)          one row per example and token
    grads    (n, *shape)        parameter gradients stay PER EXAMPLE: they are summed over tokens, never over n

Nothing takes a conjugate, an absolute value or a maximum of what it differentiates, so every layer also accepts
complex numbers, and f(w + ih v) has the derivative along v in its imaginary part (complex-step differentiation).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Array = np.ndarray
Weights = Mapping[str, Array]
Grads = dict[str, Array]
Pullback = Callable[[Array], tuple[Array, Grads]]


def identity(dy: Array) -> tuple[Array, Grads]:
    """The pullback of a layer that is not there."""
    return dy, {}
