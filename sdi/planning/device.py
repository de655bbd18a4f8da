"""On which device a model is, whether another is there, and a model moved to one within a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sdi.inputs.batches import map_leaves


def device_of(model: Any) -> str:
    """The device of a model's first parameter; "cpu" for one that is not PyTorch's.

    >>> device_of(object())
    'cpu'
    """
    if not hasattr(model, "named_parameters"):
        return "cpu"
    return next((str(p.device) for p in model.parameters()), "cpu")


def is_here(device: str) -> bool:
    """Whether this machine has a device. ValueError for a name that PyTorch does not know, or "meta"."""
    import torch

    try:
        kind = torch.device(device).type
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"device must be a name such as 'cpu', 'cuda' or 'cuda:1', got {device!r}: {error}") from None
    if kind == "meta":
        raise ValueError("device must be one that computes, got 'meta'")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError):
        return False
    return True


def same_device(one: str, other: str) -> bool:
    """Whether two names are of one device: "cuda" is any of them.

    >>> same_device("cuda", "cuda:1"), same_device("cuda:0", "cuda:1")
    (True, False)
    """
    (kind, _, number), (other_kind, _, other_number) = one.partition(":"), other.partition(":")
    return kind == other_kind and (number == other_number or not number or not other_number)


@contextmanager
def on_device(model: Any, device: str) -> Iterator[None]:
    """Move a model there within a block, and back."""
    before = device_of(model)
    model.to(device)
    try:
        yield
    finally:
        model.to(before)


def batch_on(batch: Any, device: str) -> Any:
    """A batch whose tensors are on a device."""
    return map_leaves(batch, lambda path, x: x.to(device) if hasattr(x, "to") and hasattr(x, "device") else x)
