"""The user's model leaves as it came: flags, gradients, buffers, attributes, random state, also after an exception."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.weak import WeakTensorKeyDictionary

from .random_and_autocast import RandomState
from .restore_attributes import attributes_put_back

LARGE = 1 << 20
# Large buffers that a pass did not write to, with their version: they are not copied.
_constant: Any = WeakTensorKeyDictionary()


@contextmanager
def unharmed(model: nn.Module) -> Iterator[None]:
    """Freeze every parameter for the duration, and put back whatever a forward pass may have changed.

    So every pass begins with the model as the user gave it, whatever a module keeps from call to call.
    """
    flags = [(p, p.requires_grad) for p in model.parameters()]
    modes = [(m, m.training) for m in model.modules()]
    buffers = [(m, name, b, _copy(m, b)) for m in model.modules() for name, b in m._buffers.items()]
    versions = [0 if b is None else b._version for _, _, b, _ in buffers]
    # An embedding with max_norm shrinks its own weights as it is called.
    shrinking: list[Any] = [m for m in model.modules() if getattr(m, "max_norm", None) is not None]
    weights = [(m.weight, m.weight.detach().clone()) for m in shrinking]
    random = RandomState()
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # attention would take it, the parameters being frozen
    try:
        for p, _ in flags:
            p.requires_grad_(False)
        with _eagerly(), attributes_put_back(list(model.modules())):
            yield
    finally:
        for p, flag in flags:
            p.requires_grad_(flag)
        for module, training in modes:
            module.training = training
        for module, name, b, _ in buffers:
            module._buffers[name] = b
        copied = [(b, copy, version) for (_, _, b, copy), version in zip(buffers, versions, strict=True)
                  if b is not None and copy is not None]  # fmt: skip
        changed = _put_back([(b, copy) for b, copy, _ in copied])
        for (b, _, version), written in zip(copied, changed, strict=True):
            if not written and b._version == version and b.nbytes > LARGE:
                _constant[b] = version
        _put_back(weights)
        torch.backends.mha.set_fastpath_enabled(fused)
        random.restore()


def _eagerly() -> AbstractContextManager[Any]:
    """Run torch.compile'd modules uncompiled within a block: hooks inside compiled graphs are not called reliably."""
    loaded = "torch._dynamo" in sys.modules and hasattr(torch.compiler, "set_stance")
    return torch.compiler.set_stance("force_eager") if loaded else nullcontext()


def _copy(module: nn.Module, b: Tensor | None) -> Tensor | None:
    if b is None or (not module.training and _constant.get(b) == b._version):
        return None
    return b.detach().clone()


def _put_back(copies: Sequence[tuple[Tensor, Tensor]]) -> list[bool]:
    """Put back what was written to since it was copied; returns of which that is true."""
    changed = _differ(copies)
    with torch.no_grad():
        for (x, copy), differs in zip(copies, changed, strict=True):
            if differs:
                x.copy_(copy)
    return changed


def _differ(copies: Sequence[tuple[Tensor, Tensor]]) -> list[bool]:
    """Whether tensors differ from their copies, by values: batch_norm does not bump _version.

    On another device than a CPU the host waits once for all of them.
    """
    if all(x.device.type == "cpu" for x, _ in copies):
        return [not torch.equal(x, copy) for x, copy in copies]
    some = [(x != copy).any() for x, copy in copies]
    return [bool(differs) for differs in torch.stack([x.to(some[0].device) for x in some]).tolist()]
