"""Call: one call of a module, kept well enough to be run again."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from .ambient import Ambient


class Call:
    """Made before the module runs: its inputs, held without their graph, and what else the call depends on."""

    def __init__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self.module = module
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.leaves = [x.detach() if isinstance(x, Tensor) else x for x in leaves]
        self.versions = self._versions()
        self.ambient = Ambient()

    def inputs(self, leaves: list[Any]) -> tuple[Any, Any]:
        """These leaves in the places of its own: args, kwargs."""
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs

    def changed(self) -> bool:
        """Whether an input was changed in place since."""
        return self.versions != self._versions()

    def _versions(self) -> list[int]:
        return [x._version for x in self.leaves if isinstance(x, Tensor)]
