"""Broken sketches that several checks must reject."""

from __future__ import annotations

import numpy as np

from sdi.sketch.shipped.count_and_tensor import TensorSketch

Array = np.ndarray


def last_one_wins(sketch: TensorSketch, X: Array) -> Array:
    """Of the entries that share a bucket, the last replaces the others instead of being added to them."""
    y = np.zeros((*X.shape[:-2], sketch.m), dtype=X.dtype)
    y[..., sketch.H.ravel()] = (sketch.S * X).reshape(*X.shape[:-2], -1)
    return y
