"""Arena: where the activations that hooks keep are copied to, mapped once and used again by every batch.

They come to hundreds of megabytes a pass. Kept where they were made, they would be fresh pages every time, and a page
fault costs more than the copy. What the originals leave is too scattered for malloc to use again, so the peak grows
with what is copied: hence not more than MOST.
"""

from __future__ import annotations

from math import prod
from weakref import ref

import numpy as np
import torch
from torch import Tensor

SLAB_BYTES = 32 << 20
SMALL = 1 << 16  # below this, malloc has pages at hand
MOST = 512 << 20  # in all; the rest is kept where it was made


class Arena:
    """Reused memory for kept activations: `keep(x)` gives x detached, or a copy of it that is valid until `clear`."""

    def __init__(self) -> None:
        self._slabs: list[np.ndarray] = []
        self.clear()

    def clear(self) -> None:
        self._slab, self._at, self._held = 0, 0, 0
        self._last: tuple[ref[Tensor], int, Tensor] | None = None  # several modules often read one activation

    def keep(self, x: Tensor) -> Tensor:
        if x.device.type != "cpu" or not x.is_contiguous() or x.nbytes < SMALL:
            return x.detach()
        if self._last is not None and self._last[0]() is x and self._last[1] == x._version:
            return self._last[2]
        if self._held + x.nbytes > MOST:
            return x.detach()
        self._held += x.nbytes
        copy = self._take(x.nbytes, x.shape, x.dtype).copy_(x.detach())
        self._last = (ref(x), x._version, copy)
        return copy

    def _take(self, size: int, shape: torch.Size, dtype: torch.dtype) -> Tensor:
        while self._slab < len(self._slabs) and self._at + size > self._slabs[self._slab].nbytes:
            self._slab, self._at = self._slab + 1, 0
        if self._slab == len(self._slabs):
            self._slabs.append(np.empty(max(size, SLAB_BYTES), np.uint8))
        start, self._at = self._at, self._at + -(-size // 64) * 64
        # Not a slice of one tensor: slices would share their version, and each must show changes of its own.
        return torch.frombuffer(self._slabs[self._slab], dtype=dtype, count=prod(shape), offset=start).view(shape)
