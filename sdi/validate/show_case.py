"""Cases in messages. They are written out only when something is wrong: most never are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def at(sketch: Any, how: str = "", **arrays: Any) -> Callable[[], str]:
    """The size of a sketch and the arrays it was given, as a text to be asked for."""
    return lambda: ", ".join((size_of(sketch), *(f"{name}={shown(x)}" for name, x in arrays.items()))) + how


def size_of(sketch: Any) -> str:
    return f"shape {tuple(sketch.shape)}, {sketch.size} number{'s' if sketch.size != 1 else ''}"


def shown(x: Any) -> str:
    """An array in one line, as short as it can be read.

    >>> shown(np.eye(2)), shown(0.25), shown(np.zeros((9, 9)))
    ('[[1, 0], [0, 1]]', '0.25', 'an array of shape (9, 9)')
    """
    x = np.asarray(x)
    if x.ndim == 0:
        return f"{x:g}"
    if x.size > 64:
        return f"an array of shape {x.shape}"
    if x.dtype.kind == "f" and x.size and np.allclose(x, np.round(x)):
        x = np.round(x).astype(np.int64)
    return " ".join(np.array2string(x, precision=3, separator=", ", suppress_small=True).split())
