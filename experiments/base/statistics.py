"""Statistics that experiments share: plain numbers in, plain dictionaries out."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool

Array = np.ndarray
Numbers = dict[str, Any]


def wilson(right: Bool[Array, "n"], z: float = 1.959964) -> Numbers:
    """A share with its interval after Wilson, by default of 95%.

    right: what is counted. z: the normal quantile of the interval.

    >>> [round(v, 3) for v in wilson(np.array([True] * 10)).values()]
    [1.0, 0.722, 1.0]
    """
    n, share = len(right), float(np.mean(right)) if len(right) else 0.0
    if not n:
        return {"share": None, "low": None, "high": None}
    middle = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    return {"share": share, "low": float(max(0.0, middle - half)), "high": float(min(1.0, middle + half))}
