"""The arrays of a shard: features as they are, or rounded, with scales; and losses.

In float16, each step of each example is divided by a power of two of its own; in int8, each parameter's part of it has
a scale (`sdi/store/int8.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from sdi.errors import StoreError
from sdi.sketch.sketch_map import Block
from sdi.store.features import Features
from sdi.store.int8 import block_peaks, from_int8, to_int8

LOSS = "loss"  # an array of a shard, which shards of older versions do not have


def encoded(features: Features, dtype: np.dtype, shard: Path, place: Sequence[str] = ()) -> dict[str, np.ndarray]:
    """Features as the arrays of a shard, by name. shard: its path, for messages.

    place: the checkpoint and the side, from which, with the ids, the rounding of int8 is drawn.
    """
    tensors = {"values": features.values}
    if features.outside is not None:
        tensors["outside"] = features.outside
    scales: dict[str, np.ndarray] = {}
    zeros: dict[str, np.ndarray] = {}  # where a scale is rightly zero
    if dtype == np.int8:
        for name, x in tensors.items():
            keys = [(features.sketch, *place, i, name) for i in features.ids]
            tensors[name], scales[name] = to_int8(x, features.blocks, keys)
            zeros[name] = block_peaks(x, features.blocks) == 0
    elif dtype == np.float16:
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
        if name.endswith(".scale") and not (x.astype(bool) | zeros.get(name.removesuffix(".scale"), False)).all():
            raise StoreError(f"values of shard {shard} are too small for {dtype}; use dtype='float64'")
    return out


def decoded(part: Mapping[str, np.ndarray], name: str, rows: slice | list[int], blocks: Sequence[Block]) -> np.ndarray:
    """Rows of one of a shard's arrays, unscaled. part: the mapped arrays, by name. blocks: their columns."""
    x: np.ndarray = part[name][rows]
    scale = part.get(f"{name}.scale", part.get("scale"))  # of every step, or, in older stores, of every example
    if scale is None:
        return x
    if x.dtype == np.int8:
        return from_int8(x, scale[rows], blocks)
    return x * scale[rows].reshape(*scale[rows].shape, *[1] * (x.ndim - scale.ndim))
