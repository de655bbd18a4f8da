"""Shared by the dense projections: a limit on the size of their matrix, and the product with it."""

from __future__ import annotations

from math import prod

import numpy as np
from jaxtyping import Shaped

from sdi.sketch.protocol import Shape

Array = np.ndarray
MOST_BYTES = 1 << 30  # of the matrix in double precision, for one parameter


def check_dense(m: int, shape: Shape, name: str, kind: str) -> None:
    """Refuse a projection matrix above MOST_BYTES: dense projections are for comparison at small sizes."""
    size = 8 * m * prod(shape)
    if size > MOST_BYTES:
        most = MOST_BYTES // (8 * prod(shape))
        remedy = f"use m of at most {most} there, or " if most else "use "
        raise ValueError(
            f"sketch {kind!r} of {name!r} with shape {shape} at m={m} is a dense matrix of {size:,} bytes, over "
            f"{MOST_BYTES:,}; {remedy}another sketch for it, such as 'tensor' or 'hadamard'"
        )


def product(x: Shaped[Array, "... numbers"], table: Shaped[Array, "m numbers"]) -> Shaped[Array, "... m"]:
    """x times the table's transpose, in the dtype of x."""
    return x @ table.T.astype(x.dtype if x.dtype.kind in "fc" else table.dtype if x.dtype == object else np.int64)
