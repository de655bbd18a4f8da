"""held_tensors: the tensors in objects that PyTorch does not open: caches, dataclasses, states, graph batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from .graph_leaves import carries_gradient

PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size, slice, range)
CLOSED = (type, nn.Module, ModuleType, FunctionType, BuiltinFunctionType, MethodType, torch.Generator)
LEVELS = 6  # of objects within objects


def held_tensors(leaves: Iterable[Any]) -> list[Tensor]:
    """Tensors of numbers within objects among the leaves of a call's arguments or outputs; not leaves themselves."""
    objects = [x for x in leaves if not isinstance(x, (Tensor, *PLAIN, *CLOSED))]
    found: list[Tensor] = []
    seen: set[int] = set()
    for _ in range(LEVELS):
        inside = [part for x in objects for part in _parts(x)]
        found += [x for x in inside if carries_gradient(x)]
        objects = []
        for x in inside:
            if not isinstance(x, (Tensor, *PLAIN, *CLOSED)) and id(x) not in seen:
                seen.add(id(x))
                objects.append(x)
        if not objects:
            break
    return found


def _parts(x: Any) -> list[Any]:
    if isinstance(x, Mapping):
        return list(x.values())
    parts = list(x) if isinstance(x, (list, tuple, set, frozenset)) else []
    parts += vars(x).values() if hasattr(x, "__dict__") else []
    slots = [name for kind in type(x).__mro__ for name in _slots(kind)]
    return parts + [getattr(x, name) for name in slots if hasattr(x, name)]


def _slots(kind: type) -> list[str]:
    slots = vars(kind).get("__slots__", ())
    return [slots] if isinstance(slots, str) else [name for name in slots if name not in ("__dict__", "__weakref__")]
