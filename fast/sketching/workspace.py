"""Workspace: buffers that are allocated once and reused: page faults cost more than the arithmetic on them."""

from __future__ import annotations

from math import prod

import torch
from torch import Tensor


class Workspace:
    """`take(name, shape, dtype)` gives a buffer with unspecified content, valid until the name is taken again."""

    def __init__(self, device: torch.device, max_bytes: int) -> None:
        self.device = device
        self.max_bytes = max_bytes  # what one kernel's buffers may come to; chunk sizes follow from it
        self._pools: dict[tuple[str, torch.dtype], Tensor] = {}
        self._views: dict[tuple[str, tuple[int, ...], torch.dtype], Tensor] = {}

    def take(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        view = self._views.get((name, shape, dtype))
        if view is not None:
            return view
        pool = self._pools.get((name, dtype))
        if pool is None or pool.numel() < prod(shape):
            pool = torch.empty(prod(shape), dtype=dtype, device=self.device)
            self._pools[name, dtype] = pool
            self._views = {key: v for key, v in self._views.items() if key[0] != name or key[2] != dtype}
        view = self._views[name, shape, dtype] = pool[: prod(shape)].view(shape)
        return view
