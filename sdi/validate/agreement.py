"""Where two Features differ, in words; errors are measured against the norm of each example's whole gradient."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sdi.store.features import Features

Array = np.ndarray


def differ(fast: Features, slow: Features, rtol: float) -> str | None:
    """What is not the same in two Features of one batch; None if all is, to rtol."""
    for what in ("blocks", "sketch", "ids"):
        if getattr(fast, what) != getattr(slow, what):
            return f"{what} are {getattr(fast, what)} and {getattr(slow, what)}"
    if not np.array_equal(fast.tau, slow.tau):
        return f"tau is {fast.tau} and {slow.tau}"
    size = row_norms(slow.values) + (0 if slow.outside is None else row_norms(slow.outside))
    zero = np.zeros_like(slow.g)
    ours, theirs = (zero if f.outside is None else f.outside for f in (fast, slow))
    return far(fast.values, slow.values, size, "values", rtol) or far(ours, theirs, size, "outside", rtol)


def far(x: Array, y: Array, size: Float[Array, "n"], what: str, rtol: float) -> str | None:
    """How far x is from y, if by more than rtol of `size`: for each row, the norm of all that was summed there."""
    if x.shape != y.shape:
        return f"{what}: shapes {x.shape} and {y.shape}"
    error = np.abs(x.astype(np.float64) - y).reshape(len(x), -1).max(axis=1, initial=0.0)
    if (error <= rtol * size).all():
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        worst = float((error / size).max())
    example = int(np.argmax(~(error <= rtol * size)))
    return f"{what}: differ by {worst:.2g} of their size (allowed {rtol:.0e}), in example {example}"


def row_norms(x: Array) -> Float[Array, "n"]:
    return np.linalg.norm(x.reshape(len(x), -1).astype(np.float64), axis=1)
