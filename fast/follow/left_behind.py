"""LeftBehind: the tensors that a call leaves on its modules as attributes, for others to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from ..guard.restore_attributes import PYTORCHS_OWN, is_users_container
from .graph_leaves import carries_gradient

Place = tuple[nn.Module, str]  # an attribute of a module
PLAIN = frozenset({bool, int, float, complex, str, type(None), torch.dtype, torch.device})  # most attributes


class LeftBehind:
    """Made before a call of a module: `tensors` and `in_containers` tell what has been put there since.

    modules: the module and its parts.
    """

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        self._modules = modules
        self._before = dict(_attributes(modules))  # the tensors themselves: the number of a dead one is used again

    def tensors(self) -> list[tuple[Place, Tensor]]:
        """New tensors, each in an attribute of its own."""
        now = [(place, x) for place, x in _attributes(self._modules) if isinstance(x, Tensor)]
        return [(place, x) for place, x in now if self._before.get(place) is not x]

    def in_containers(self) -> Place | None:
        """An attribute with a list, dict, tuple or set that holds a new tensor."""
        for place, x in _attributes(self._modules):
            before = self._before.get(place)
            known = before if isinstance(before, list) else [before]
            if isinstance(x, list) and any(all(y is not old for old in known) for y in x):
                return place
        return None


def _attributes(modules: Sequence[nn.Module]) -> Iterator[tuple[Place, Tensor | list[Tensor]]]:
    """Attributes that hold a tensor that could carry a gradient, or a container of such: these, listed."""
    for module in modules:
        for name, x in vars(module).items():
            if type(x) in PLAIN or name in PYTORCHS_OWN:
                continue
            if is_users_container(name, x):
                if x:
                    yield (module, name), _tensors(x)
            elif carries_gradient(x):
                yield (module, name), x


def _tensors(container: Any) -> list[Tensor]:
    leaves = container if isinstance(container, set) else pytree.tree_leaves(container)
    return [x for x in leaves if carries_gradient(x)]
