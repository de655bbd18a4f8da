"""Call: one call of a module, kept well enough to be run again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..guard.random_and_autocast import Ambient
from .graph_leaves import carries_gradient
from .left_behind import Place


def same_output(dtype: torch.dtype) -> float:
    """The tolerance for two runs of one call: their difference as a share of the output's norm."""
    return min(1000 * torch.finfo(dtype).eps, 0.05)


class Call:
    """A call, made before the module runs: its inputs, detached, with the random state and autocast of that moment."""

    def __init__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.module = module
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.leaves = [x.detach() if isinstance(x, Tensor) else x for x in leaves]
        self.versions = self._versions()
        self.ambient = Ambient()
        self.gave: list[Tensor] = []  # the sizes of its outputs
        self.left: list[Place] = []  # where it has left tensors with a graph for others, which are outputs as well

    def inputs(self, leaves: list[Any]) -> tuple[Any, Any]:
        """(args, kwargs) of the call, with `leaves` in place of its own tensors."""
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs

    def keep_sizes(self, outputs: Iterable[Any]) -> None:
        self.gave = [_size(y) for y in outputs if carries_gradient(y)]

    def gives_again(self, outputs: Iterable[Any]) -> Tensor:
        """Whether the outputs of a second run have the norms of the first; if not, the module keeps state.

        One truth value, on the device: to read it is to wait for the device.
        """
        again = [y for y in outputs if carries_gradient(y)]
        if len(again) != len(self.gave):
            return torch.tensor(False)
        near = [
            ((_size(y) - size).abs() <= same_output(y.dtype) * size) | ~torch.isfinite(size)
            for y, size in zip(again, self.gave, strict=True)
        ]
        return torch.stack([x.to(near[0].device) for x in near]).all() if near else torch.tensor(True)

    def changed(self) -> bool:
        """Whether an input was changed in place since."""
        return self.versions != self._versions()

    def _versions(self) -> list[int]:
        return [x._version for x in self.leaves if isinstance(x, Tensor)]


def all_true(values: Sequence[Tensor]) -> bool:
    """Whether single truth values are all true. The host waits once for a device."""
    return bool(torch.stack([x.to(values[0].device) for x in values]).all()) if values else True


def _size(y: Tensor) -> Tensor:
    return torch.linalg.vector_norm(y.detach().to_dense() if y.layout != torch.strided else y.detach())
