"""Memory: what a pass may keep, and what to do when it would keep more.

In "auto", a batch first runs with hooks; if what its graph saves passes the budget, it starts over with recompute; if
that is too much as well, with half the examples, and so on down to one. Kernel buffers are cut to fit, too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sdi.arguments import check_budget, one_of
from sdi.inputs.settings import MEMORIES

from .arena import Arena

CACHE_BYTES = 4 << 20  # small enough for a kernel's buffers to stay in cache, large enough for few calls


CPU = torch.device("cpu")


class OverBudget(Exception):
    """The pass would keep more than the budget; it is given up and run another way."""


class Memory:
    """How the next batch is run: hooks or recompute, whole or in parts. It only ever becomes more frugal."""

    def __init__(self, mode: str, budget: int | None, device: torch.device = CPU) -> None:
        one_of("memory", mode, MEMORIES)
        check_budget(budget)
        self.mode = mode
        self.budget = budget if budget is not None or mode != "auto" else free_bytes(device) // 2
        self.recompute = mode == "recompute"
        self.arena = Arena()
        self.graph_kept: list[nn.Module] = []  # of these modules under recompute: only their parts can be run again
        self.rows: int | None = None  # examples at a time; None for the whole batch

    @property
    def kernel_bytes(self) -> int:
        return CACHE_BYTES if self.budget is None else max(1 << 18, min(CACHE_BYTES, self.budget // 16))

    def tighten(self, n: int) -> None:
        """Be more frugal after a batch of n examples went over the budget: recompute first, then half the examples."""
        if self.mode == "auto" and not self.recompute:
            self.recompute = True
        else:
            self.rows = max(1, min(self.rows or n, n) // 2)

    def meter(self, n: int) -> Meter:
        """A Meter for a pass over n examples; without a limit for a single one, which cannot be split further."""
        return Meter(None if n == 1 and (self.recompute or self.mode == "hooks") else self.budget)


class Meter:
    """Counts the bytes that a graph saves, each storage once."""

    def __init__(self, limit: int | None) -> None:
        self.limit, self.bytes = limit, 0
        self._seen: set[int] = set()

    def add(self, x: Tensor) -> None:
        if self.limit is None or x.is_sparse or x.layout != torch.strided:
            return
        storage = x.untyped_storage()
        if storage.data_ptr() not in self._seen:
            self._seen.add(storage.data_ptr())
            self.bytes += storage.nbytes()
            if self.bytes > self.limit:
                raise OverBudget

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count what autograd saves."""
        if self.limit is None:
            yield
            return

        def pack(x: Tensor) -> Tensor:
            self.add(x)
            return x.detach()  # x itself, as the output of the node that saves it, would keep that node forever

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            yield


def free_bytes(device: torch.device) -> int:
    """Memory that could be had now on a device. What PyTorch holds there and does not use counts as free."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + unused
    if device.type == "mps":
        return int(torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory())
    try:
        with open("/proc/meminfo") as lines:
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2
