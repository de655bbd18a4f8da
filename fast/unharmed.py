"""The user's model leaves as it came: flags, gradients, buffers and random state, also after an exception."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from .ambient import RandomState

CONSTANT_BYTES = 1 << 20  # a buffer above this, of a module that is not training, is taken for a constant


@contextmanager
def unharmed(model: nn.Module) -> Iterator[None]:
    """Freeze every parameter for the duration, and put back whatever a forward pass may have changed."""
    flags = [(p, p.requires_grad) for p in model.parameters()]
    buffers = [(m, name, b, _copy(m, b)) for m in model.modules() for name, b in m._buffers.items()]
    random = RandomState()
    try:
        for p, _ in flags:
            p.requires_grad_(False)
        yield
    finally:
        for p, flag in flags:
            p.requires_grad_(flag)
        for module, name, b, copy in buffers:
            module._buffers[name] = b
            if b is not None and copy is not None and not torch.equal(b, copy):  # batch_norm does not bump _version
                with torch.no_grad():
                    b.copy_(copy)
        random.restore()


def _copy(module: nn.Module, b: Tensor | None) -> Tensor | None:
    if b is None or not (module.training or b.nbytes <= CONSTANT_BYTES):
        return None
    return b.detach().clone()
