"""Rotary positions: the two halves of a head's vector, turned by an angle that grows with the position."""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped

from .pullback import Array

BASE = 1e4


def rotate(x: Shaped[Array, "n h L c"], sign: int = 1) -> Shaped[Array, "n h L c"]:
    """(x1, x2) -> (x1 cos - x2 sin, x1 sin + x2 cos), angle = position * BASE^(-2i/c) for i below c / 2.

    A rotation is orthogonal, so its pullback is the rotation back: `rotate(dy, sign=-1)`.

    >>> x = np.arange(12.0).reshape(1, 1, 3, 4)
    >>> bool(np.allclose(rotate(rotate(x), sign=-1), x))
    True
    """
    length, c = x.shape[-2:]
    angle = np.arange(length)[:, None] * BASE ** (-2 * np.arange(c // 2) / c)  # (L, c / 2)
    cos, sin = np.cos(angle), sign * np.sin(angle)
    x1, x2 = x[..., : c // 2], x[..., c // 2 :]
    return np.concatenate([x1 * cos - x2 * sin, x1 * sin + x2 * cos], axis=-1)
