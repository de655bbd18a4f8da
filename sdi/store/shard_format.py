"""The arrays of a shard: features as they are, or in float16 divided by a power of two for every step; and losses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from sdi.errors import StoreError
from sdi.store.features import Features

LOSS = "loss"  # an array of a shard, which shards of older versions do not have


def encoded(features: Features, dtype: np.dtype, shard: Path) -> dict[str, np.ndarray]:
    """Features as the arrays of a shard, by name. shard: its path, for messages."""
    tensors = {"values": features.values}
    if features.outside is not None:
        tensors["outside"] = features.outside
    scales = {}
    if dtype == np.float16:
        peaks = {name: np.abs(x).max(axis=-1) for name, x in tensors.items()}
        scales = {name: np.ldexp(1.0, np.frexp(peak)[1] - 1) for name, peak in peaks.items()}
        tensors = {name: x / scales[name][..., None] for name, x in tensors.items()}
    with np.errstate(over="ignore"):
        out = {name: x.astype(dtype) for name, x in tensors.items()}
        out |= {f"{name}.scale": scale.astype(np.float32) for name, scale in scales.items()}
    if features.losses is not None:
        out[LOSS] = features.losses.astype(np.float64)
    for name, x in out.items():
        if not np.isfinite(x).all():
            raise StoreError(f"{name} of shard {shard} do not fit into {dtype}; use dtype='float64'")
        if name.endswith(".scale") and not x.all():
            raise StoreError(f"values of shard {shard} are too small for {dtype}; use dtype='float64'")
    return out


def decoded(part: Mapping[str, np.ndarray], name: str, rows: slice | list[int]) -> np.ndarray:
    """Rows of one of a shard's arrays, with the scaling of float16 undone. part: the mapped arrays, by name."""
    x: np.ndarray = part[name][rows]
    scale = part.get(f"{name}.scale", part.get("scale"))  # of every step, or, in older stores, of every example
    return x if scale is None else x * scale[rows].reshape(*scale[rows].shape, *[1] * (x.ndim - scale.ndim))
