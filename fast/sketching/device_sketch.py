"""Sketches on a device (twins). Shipped classes have theirs here; a user's class may have one; others go through NumPy.

A twin has `apply(G)`, for gradients (n, *shape), and may have `apply_outer(u, v)` and `apply_rows(index, v)`, for sums
over tokens whose outer products are then never formed. All return (n, size). One that says how many numbers it holds
for each token (`token_numbers`) is given its tokens in parts that fit into the workspace; one that knows when forming
the gradient is cheaper says so (`forms(tokens)`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod
from typing import Any, Protocol

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from sdi.errors import SketchMismatch
from sdi.sketch.protocol import LinearSketch, Sketch, kind_of
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.shipped.gaussian import GaussianSketch
from sdi.sketch.shipped.hadamard import HadamardSketch
from sdi.sketch.shipped.kronecker import KroneckerSketch
from sdi.sketch.shipped.mask import MaskSketch
from sdi.sketch.shipped.rademacher import RademacherSketch
from sdi.sketch.shipped.sparse import SparseSketch

from .dense import TorchDense
from .hadamard import TorchHadamard
from .kronecker import TorchKronecker
from .mask import TorchMask
from .sparse import TorchSparse
from .workspace import Workspace


class Twin(Protocol):
    """What a sink needs of a sketch on a device."""

    def apply(self, G: Float[Tensor, "n ..."]) -> Float[Tensor, "n size"]: ...


Make = Callable[[Any, torch.device, torch.dtype], Twin]
TWINS: dict[type, Make] = {  # by exact class: a subclass may apply itself otherwise
    GaussianSketch: TorchDense,
    RademacherSketch: TorchDense,
    KroneckerSketch: TorchKronecker,
    SparseSketch: TorchSparse,
    HadamardSketch: TorchHadamard,
    MaskSketch: TorchMask,
}


class ThroughNumPy:
    """A sketch without a twin: correct everywhere, slow."""

    def __init__(self, sketch: Sketch, device: torch.device, dtype: torch.dtype) -> None:
        self.sketch, self.device, self.dtype = sketch, device, dtype
        if getattr(type(sketch), "apply_outer", None) is not LinearSketch.apply_outer:  # which forms the gradient
            self.apply_outer = self._apply_outer

    def apply(self, G: Tensor) -> Tensor:
        return self._back(self.sketch.apply(G.cpu().numpy()))

    def _apply_outer(self, u: Float[Tensor, "n T d_out"], v: Float[Tensor, "n T d_in"]) -> Tensor:
        return self._back(self.sketch.apply_outer(u.cpu().numpy(), v.cpu().numpy()))

    def _back(self, y: Any) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(y)).to(device=self.device, dtype=self.dtype)


def make_twin(sketch: Sketch, device: torch.device, dtype: torch.dtype) -> Twin:
    if type(sketch) in TWINS:
        return TWINS[type(sketch)](sketch, device, dtype)
    if hasattr(sketch, "to_torch"):
        twin: Twin = sketch.to_torch(device, dtype)
        return twin
    return ThroughNumPy(sketch, device, dtype)


def sketch_route(sketch: Sketch) -> str:
    """What `coverage` says of a sketch: its kind and, unless the library has its twin, how it is computed."""
    kind = kind_of(sketch)
    if type(sketch) in TWINS or type(sketch) in (Keep, CountSketch, TensorSketch):
        return kind
    return f"{kind} (to_torch)" if hasattr(sketch, "to_torch") else f"{kind} (NumPy)"


class TorchSketch:
    """A twin, given its work in parts that fit into the workspace; checks the shape of what it returns."""

    sums_first = True

    def __init__(self, sketch: Sketch, device: torch.device, dtype: torch.dtype) -> None:
        self.shape, self.kind, self.dtype = tuple(sketch.shape), kind_of(sketch), dtype
        self.twin: Any = make_twin(sketch, device, dtype)

    def route(self, tokens: int) -> str:
        """ "gemm" if gradients are formed for this many tokens (they may then be summed first), else "direct"."""
        if not hasattr(self.twin, "apply_outer"):
            return "gemm"
        return "gemm" if hasattr(self.twin, "forms") and self.twin.forms(tokens) else "direct"

    def add_outer(self, acc: Float[Tensor, "n size"], u: Tensor, v: Tensor, work: Workspace) -> None:
        """acc += sketch of the sum over tokens of outer(u, v), for each example."""
        u, v = u.to(self.dtype), v.to(self.dtype)
        direct = self.twin.apply_outer if self.route(u.shape[1]) == "direct" else None
        for n, part in self._parts(u.shape, work, direct):
            if direct is not None:
                self._add(acc[n], direct(u[part], v[part]), "apply_outer")
            else:
                self.add_matrix(acc[n], torch.bmm(u[part].transpose(1, 2), v[part]), work)

    def add_rows(self, acc: Tensor, index: Int[Tensor, "n T"], v: Float[Tensor, "n T d_in"], work: Workspace) -> None:
        """acc += sketch of the sum over tokens of outer(one_hot(index), v)."""
        v = v.to(self.dtype)
        direct = getattr(self.twin, "apply_rows", None)
        for n, part in self._parts(v.shape, work, direct):
            if direct is not None:
                self._add(acc[n], direct(index[part], v[part]), "apply_rows")
            else:
                G = torch.zeros(len(v[part]), *self.shape, dtype=self.dtype, device=v.device)
                self.add_matrix(acc[n], G.scatter_add_(1, index[part][..., None].expand(v[part].shape), v[part]), work)

    def add_matrix(self, acc: Tensor, G: Float[Tensor, "n ..."], work: Workspace) -> None:
        """acc += sketch of gradients that exist already."""
        rows = self._rows(prod(self.shape), work)
        for i in range(0, len(G), rows):
            self._add(acc[i : i + rows], self.twin.apply(G[i : i + rows].to(self.dtype)), "apply")

    def _parts(self, shape: torch.Size, work: Workspace, direct: Any) -> Iterator[tuple[slice, tuple[slice, slice]]]:
        """How many examples, and how many tokens, to take at a time so that buffers fit into the workspace."""
        n, tokens = shape[:2]
        each = getattr(self.twin, "token_numbers", None) if direct is not None else None
        length = tokens if each is None else max(1, min(tokens, self._rows(each, work)))
        rows = self._rows(prod(self.shape) if each is None else each * max(tokens, 1), work)
        for i in range(0, n, rows):
            for j in range(0, tokens, max(length, 1)):
                yield slice(i, i + rows), (slice(i, i + rows), slice(j, j + length))

    def _rows(self, numbers: int, work: Workspace) -> int:
        return max(1, work.max_bytes // (self.dtype.itemsize * numbers))

    def _add(self, acc: Tensor, y: Any, verb: str) -> None:
        if not isinstance(y, Tensor) or y.shape != acc.shape:
            got = tuple(y.shape) if hasattr(y, "shape") else type(y).__name__
            raise SketchMismatch(f"{verb} of sketch {self.kind!r} must give shape {tuple(acc.shape)}, got {got}")
        acc += y
