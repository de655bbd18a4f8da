"""record_calls: run a loss once, and write down every call of a module and every use of a parameter."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from sdi.inputs.calls import Call, Calls
from sdi.inputs.unwrap import unwrapped_model

from ..guard.restore_model import unharmed

LOOKS = (
    "__get__",
    "size",
    "dim",
    "numel",
    "stride",
    "is_floating_point",
    "is_complex",
    "detach",
    "data_ptr",
    "__hash__",
)


def record_calls(model: nn.Module, loss: Callable[[Any, Any], Any], batch: Any) -> Calls:
    """Everything that one evaluation of the loss calls and uses. The model leaves as it came.

    model: an `nn.Module`. loss: a function of model and batch. batch: as the loss takes it.
    """
    model = unwrapped_model(model)
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {model!r}")
    if not callable(loss):
        raise TypeError(f"loss must be a function of the model and a batch, got {loss!r}")
    names = {module: name for name, module in model.named_modules()}
    own = {id(p): name for name, p in model.named_parameters()}
    root = Call("the loss")
    open_calls = [root]
    uses: dict[str, Counter[str]] = defaultdict(Counter)

    def enter(module: nn.Module, args: Any) -> None:
        call = Call(names[module])
        open_calls[-1].inner.append(call)
        open_calls.append(call)

    def leave(module: nn.Module, args: Any, output: Any) -> None:
        open_calls.pop()

    class Uses(TorchFunctionMode):
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if getattr(func, "__name__", "") not in LOOKS:
                for p in _tensors((args, kwargs or {})):
                    if id(p) in own:
                        uses[own[id(p)]][open_calls[-1].name] += 1
            return func(*args, **(kwargs or {}))

    handles = []
    try:
        with unharmed(model):
            for module in names:
                handles.append(module.register_forward_pre_hook(enter, prepend=True))
                handles.append(module.register_forward_hook(leave, always_call=True))
            with torch.enable_grad(), Uses():
                loss(model, batch)
    finally:
        for handle in handles:
            handle.remove()
    return Calls(root, *_sizes(model), {name: p.numel() for name, p in model.named_parameters()}, uses)


def _sizes(model: nn.Module) -> tuple[dict[str, int], dict[str, tuple[str, ...]]]:
    """Of each module, the size of its parameters, and the modules that have the very same ones."""
    sizes: dict[str, int] = {}
    alike: dict[frozenset[int], list[str]] = defaultdict(list)
    sets: dict[str, frozenset[int]] = {}
    for name, module in model.named_modules():
        parameters = {id(p): p.numel() for p in module.parameters()}
        sizes[name] = sum(parameters.values())
        sets[name] = frozenset(parameters)
        if parameters:
            alike[sets[name]].append(name)
    same = {}
    for name, key in sets.items():
        if key:  # a module that only wraps another one is no twin of it
            same[name] = tuple(n for n in alike[key] if n == name or not (_within(n, name) or _within(name, n)))
    return sizes, same


def _within(name: str, other: str) -> bool:
    return other == "" or name.startswith(other + ".")


def _tensors(value: Any) -> Iterator[Any]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _tensors(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _tensors(part)
