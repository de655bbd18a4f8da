"""Sinks: they take a parameter's per-example gradients and sketch them, or keep them whole.

Routes know modules and produce gradients in one of four forms; a sink takes each form for one parameter and adds
it to a slot. A slot is a loop step (0-based), or None for what enters outside the loop.
"""

from __future__ import annotations

from math import prod
from typing import Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.sketch_map import Block, SketchMap

from .compiled import make_tensor_sketch
from .device_sketch import TorchSketch
from .tensor_sketch import TorchCountSketch, TorchTensorSketch
from .workspace import Workspace

Slot = int | None


class Sink(Protocol):
    """Takes the gradients of one parameter. `open` is called once the number of examples and steps is known."""

    def open(self, n: int, tau: int) -> None: ...

    def outer(self, slot: Slot, u: Float[Tensor, "n T d_out"], v: Float[Tensor, "n T d_in"]) -> None:
        """The sum over tokens of outer(u, v)."""

    def rows(self, slot: Slot, index: Int[Tensor, "n T"], v: Float[Tensor, "n T d_in"]) -> None:
        """The sum over tokens of outer(one_hot(index), v)."""

    def whole(self, slot: Slot, G: Float[Tensor, "n ..."]) -> None:
        """The gradient itself, in the parameter's shape."""


class Accumulator:
    """One tensor for all parameters: (n, tau, D), or (n, D) when steps are summed; `outside` appears when needed."""

    def __init__(self, sketch: SketchMap, steps: bool, dtype: torch.dtype, device: torch.device) -> None:
        self.sketch, self.steps, self.dtype, self.device = sketch, steps, dtype, device
        self.clear()

    def clear(self) -> None:
        self.values: Tensor | None = None
        self.outside: Tensor | None = None
        self.late: list[TensorSink] = []  # sinks that sum before they sketch

    def finish(self) -> tuple[np.ndarray, np.ndarray | None]:
        """(values, outside), after gradients that were summed before sketching have been sketched."""
        for sink in self.late:
            sink.finish()
        assert self.values is not None
        return self.values.cpu().numpy(), None if self.outside is None else self.outside.cpu().numpy()

    def open(self, n: int, tau: int) -> None:
        if self.values is None:
            shape = (n, tau, self.sketch.size) if self.steps else (n, self.sketch.size)
            if self.device.type == "cpu":
                # NumPy leaves zeroing to the system, page by page as they are written; torch would write all twice.
                dtype = np.float64 if self.dtype == torch.float64 else np.float32
                self.values = torch.from_numpy(np.zeros(shape, dtype))
            else:
                self.values = torch.zeros(shape, dtype=self.dtype, device=self.device)

    def at(self, slot: Slot, block: Block) -> Float[Tensor, "n width"]:
        assert self.values is not None, "a gradient arrived before the forward pass had ended"
        if not self.steps:
            return self.values[:, block.start : block.stop]
        if slot is not None:
            return self.values[:, slot, block.start : block.stop]
        if self.outside is None:
            self.outside = torch.zeros_like(self.values[:, 0])
        return self.outside[:, block.start : block.stop]


class KeepSink:
    """A sink that keeps a parameter's gradient whole."""

    def __init__(self, acc: Accumulator, block: Block) -> None:
        self.acc, self.block = acc, block

    def open(self, n: int, tau: int) -> None:
        self.acc.open(n, tau)

    def outer(self, slot: Slot, u: Tensor, v: Tensor) -> None:
        at = self._matrix(slot)
        at.baddbmm_(u.to(at.dtype).transpose(1, 2), v.to(at.dtype))

    def rows(self, slot: Slot, index: Tensor, v: Tensor) -> None:
        at = self._matrix(slot)
        at.scatter_add_(1, index[..., None].expand(v.shape), v.to(at.dtype))

    def whole(self, slot: Slot, G: Tensor) -> None:
        self.acc.at(slot, self.block).add_(G.reshape(len(G), -1))

    def _matrix(self, slot: Slot) -> Float[Tensor, "n d_out d_in"]:
        return self.acc.at(slot, self.block).view(-1, *matrix_shape(self.block.shape))


class CountSink(KeepSink):
    """A sink that adds a vector's gradient to its CountSketch."""

    def __init__(self, acc: Accumulator, block: Block, tables: TorchCountSketch) -> None:
        super().__init__(acc, block)
        self.tables = tables

    def whole(self, slot: Slot, G: Tensor) -> None:
        self.tables.add(self.acc.at(slot, self.block), G.flatten(1))


class TensorSink(KeepSink):
    """A sink that adds a matrix's gradient to its TensorSketch, or any parameter's to another sketch.

    Where steps are summed, small matrices are summed before sketching.
    """

    def __init__(
        self, acc: Accumulator, block: Block, tables: TorchTensorSketch | TorchSketch, work: Workspace
    ) -> None:
        super().__init__(acc, block)
        self.tables, self.work = tables, work
        self.sum: Tensor | None = None

    def outer(self, slot: Slot, u: Tensor, v: Tensor) -> None:
        small = self.tables.sums_first and self.tables.route(u.shape[1]) == "gemm" and self._sum_fits(len(u))
        if small and not self.acc.steps:
            if self.sum is None:
                self.acc.late.append(self)
                self.sum = torch.zeros(len(u), *self.tables.shape, dtype=self.acc.dtype, device=self.acc.device)
            self.sum.baddbmm_(u.to(self.sum.dtype).transpose(1, 2), v.to(self.sum.dtype))
        else:
            self.tables.add_outer(self.acc.at(slot, self.block), u, v, self.work)

    def rows(self, slot: Slot, index: Tensor, v: Tensor) -> None:
        self.tables.add_rows(self.acc.at(slot, self.block), index, v, self.work)

    def whole(self, slot: Slot, G: Tensor) -> None:
        self.tables.add_matrix(self.acc.at(slot, self.block), G.reshape(len(G), *self.tables.shape), self.work)

    def finish(self) -> None:
        if self.sum is not None:
            self.tables.add_matrix(self.acc.at(None, self.block), self.sum, self.work)
            self.sum = None

    def _sum_fits(self, n: int) -> bool:
        return n * prod(self.tables.shape) * self.acc.dtype.itemsize <= self.work.max_bytes * 4


Tables = dict[str, TorchCountSketch | TorchTensorSketch | TorchSketch]


def make_sinks(acc: Accumulator, work: Workspace, tables: Tables) -> dict[str, KeepSink]:
    """A sink for every parameter of the sketch. `tables` are kept by the caller, to be made only once.

    Exact classes: a subclass may apply itself otherwise.
    """
    sinks: dict[str, KeepSink] = {}
    for block in acc.sketch.blocks:
        sketch = acc.sketch.sketches[block.name]
        if block.name not in tables and type(sketch) is CountSketch:
            tables[block.name] = TorchCountSketch(sketch, acc.device, acc.dtype)
        if block.name not in tables and type(sketch) is TensorSketch:
            tables[block.name] = make_tensor_sketch(sketch, acc.device, acc.dtype)
        if block.name not in tables and type(sketch) is not Keep:
            tables[block.name] = TorchSketch(sketch, acc.device, acc.dtype)
        match tables.get(block.name):
            case TorchCountSketch() as count:
                sinks[block.name] = CountSink(acc, block, count)
            case (TorchTensorSketch() | TorchSketch()) as tensor:
                sinks[block.name] = TensorSink(acc, block, tensor, work)
            case None:
                sinks[block.name] = KeepSink(acc, block)
    return sinks
