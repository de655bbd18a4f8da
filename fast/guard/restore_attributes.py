"""What modules set on themselves when they are run for us is put back: no pass sees what an earlier one has left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import nn

CONTAINERS = (list, tuple, set, deque, dict)
PYTORCHS_OWN = frozenset(vars(nn.Module()))  # hooks, parameters, buffers


@contextmanager
def attributes_put_back(modules: Sequence[nn.Module]) -> Iterator[None]:
    """For the duration of a run: plain attributes, and what stands in lists, sets, dicts and deques there."""
    before = [(vars(m), dict(vars(m))) for m in modules]
    contents = [
        (x, _parts(x))
        for _, held in before
        for name, x in held.items()
        if isinstance(x, CONTAINERS) and name not in PYTORCHS_OWN
    ]
    try:
        yield
    finally:
        for now, held in before:
            if not _same(list(now.values()), list(held.values())):
                now.clear()
                now.update(held)
        for x, parts in contents:
            if not _same(_parts(x), parts):
                _refill(x, parts)


def is_users_container(name: str, x: Any) -> bool:
    """Whether a module's attribute is a container of the user's; names of PyTorch's own begin with an underscore."""
    return isinstance(x, CONTAINERS) and not name.startswith("_")


def _parts(x: Any) -> list[Any]:
    return [*x, *x.values()] if isinstance(x, dict) else list(x)


def _same(some: list[Any], others: list[Any]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _refill(x: Any, parts: list[Any]) -> None:
    x.clear()
    if isinstance(x, dict):
        x.update(zip(parts[: len(parts) // 2], parts[len(parts) // 2 :], strict=True))
    elif isinstance(x, set):
        x.update(parts)
    else:
        x.extend(parts)
