"""Replay: per-example gradients of one module by differentiating that module alone, example by example.

Serves any module: custom norms, packed attention, bare parameters, low-rank additions, convolutions of any kind.
It keeps the call's inputs, and when the gradient `delta` at an output arrives, it runs the module once more and pulls
`delta` back to the module's own parameters. Vectorised over examples where `torch.func` can; one example at a time,
with the call's own random state, where the module draws random numbers or cannot be vectorised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils import _pytree as pytree

from .routes import NoBatchAxis
from .sinks import Sink, Slot


class Call:
    """One call of a module: its inputs, held without their graph, and the random state if it draws."""

    def __init__(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        leaves, self.spec = pytree.tree_flatten((args, kwargs))
        self.leaves = [x.detach() if isinstance(x, Tensor) else x for x in leaves]
        self.names = [str(path[1]) if len(path) > 1 else "" for path, _ in pytree.tree_flatten_with_path((args, kwargs))[0]]
        self.random = torch.get_rng_state() if draws(module) else None

    def inputs(self, leaves: list[Any]) -> tuple[Any, Any]:
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        return args, kwargs

    def batch_axes(self, module: nn.Module, n: int) -> list[int | None]:
        """Per input, the axis that counts examples; None for what all examples share."""
        axis = 0
        if isinstance(module, nn.MultiheadAttention):
            axis = 0 if module.batch_first else 1
        axes: list[int | None] = []
        for x in self.leaves:
            batched = isinstance(x, Tensor) and x.dim() > axis and x.shape[axis] == n
            axes.append(axis if batched else None)
        if isinstance(module, nn.MultiheadAttention):
            axes = [ax if self._is_sequence(i) else None for i, ax in enumerate(axes)]
        if all(ax is None for ax in axes):
            raise NoBatchAxis
        return axes

    def _is_sequence(self, i: int) -> bool:
        """query, key, value of a MultiheadAttention: by position or by name, three axes."""
        return self.leaves[i].dim() == 3 and "mask" not in self.names[i] if isinstance(self.leaves[i], Tensor) else False


def replay(
    module: nn.Module,
    call: Call,
    output: int,
    delta: Tensor,
    parameters: Mapping[str, nn.Parameter],
    sinks: Mapping[str, Sink],
    slot: Slot,
    n: int,
) -> list[str]:
    """Hand the per-example gradients of `parameters` (names within the module) to their sinks.

    Returns the names of those that the output depends on.
    """
    axes = call.batch_axes(module, n)
    axis = next(ax for ax in axes if ax is not None)
    if delta.dim() <= axis or delta.shape[axis] != n:
        raise NoBatchAxis
    weights = {name: p.detach() for name, p in parameters.items()}
    used = _used(module, call, output, weights)
    weights = {name: weights[name] for name in used}
    gradients = None
    if call.random is None and used:
        try:
            gradients = _vectorised(module, call, output, delta, weights, axes, axis)
        except (RuntimeError, NotImplementedError, ValueError, TypeError):
            gradients = None  # vmap cannot follow this module; one example at a time can
    if gradients is None:
        gradients = _one_by_one(module, call, output, delta, weights, axis, n)
    for name, G in gradients.items():
        sinks[name].whole(slot, G)
    return used


def _used(module: nn.Module, call: Call, output: int, weights: dict[str, Tensor]) -> list[str]:
    """The parameters in the graph of this output."""
    weights = {name: w.clone().requires_grad_() for name, w in weights.items()}
    y = _replayed(module, call, output, weights)
    if not y.requires_grad:
        return []
    parts = torch.autograd.grad(y, list(weights.values()), torch.zeros_like(y), allow_unused=True)
    return [name for name, part in zip(weights, parts, strict=True) if part is not None]


def _replayed(module: nn.Module, call: Call, output: int, weights: dict[str, Tensor]) -> Tensor:
    """The output of the whole batch again, with a graph and the call's own random numbers."""
    here = torch.get_rng_state()
    try:
        if call.random is not None:
            torch.set_rng_state(call.random)
        with torch.enable_grad():
            return _tensor_output(_run(module, weights, call, list(call.leaves)), output)
    finally:
        torch.set_rng_state(here)


def _vectorised(
    module: nn.Module, call: Call, output: int, delta: Tensor, weights: dict[str, Tensor], axes: list[Any], axis: int
) -> dict[str, Tensor]:
    """vmap over examples of the pullback; each example keeps a batch axis of one."""
    at = [i for i, ax in enumerate(axes) if ax is not None]

    def value(w: dict[str, Tensor], rows: tuple[Tensor, ...], delta_row: Tensor) -> Tensor:
        leaves = list(call.leaves)
        for i, row in zip(at, rows, strict=True):
            leaves[i] = row.unsqueeze(axis)
        y = _tensor_output(_run(module, w, call, leaves), output)
        return (y.to(delta_row.dtype) * delta_row.unsqueeze(axis)).sum()

    pullback: Callable[..., dict[str, Tensor]] = vmap(grad(value), in_dims=(None, (axis,) * len(at), axis))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # vmap's hints about speed
        return pullback(weights, tuple(call.leaves[i] for i in at), delta)


def _one_by_one(
    module: nn.Module, call: Call, output: int, delta: Tensor, weights: dict[str, Tensor], axis: int, n: int
) -> dict[str, Tensor]:
    """One forward of the whole batch, with the call's own random numbers, and one pullback per example."""
    weights = {name: w.clone().requires_grad_() for name, w in weights.items()}
    y = _replayed(module, call, output, weights)
    gradients: dict[str, list[Tensor]] = {name: [] for name in weights}
    if not weights:
        return {}
    for i in range(n):
        only = torch.zeros_like(delta)
        only.narrow(axis, i, 1).copy_(delta.narrow(axis, i, 1))
        parts = torch.autograd.grad(y, list(weights.values()), only, retain_graph=True, allow_unused=True)
        for (name, w), part in zip(weights.items(), parts, strict=True):
            gradients[name].append(torch.zeros_like(w) if part is None else part)
    return {name: torch.stack(parts) for name, parts in gradients.items()}


def _run(module: nn.Module, weights: dict[str, Tensor], call: Call, leaves: list[Any]) -> Any:
    args, kwargs = call.inputs(leaves)
    return functional_call(module, weights, args, kwargs)


def tensor_outputs(result: Any) -> list[Tensor]:
    """The tensors among a module's outputs, in a fixed order."""
    return [x for x in pytree.tree_leaves(result) if isinstance(x, Tensor)]


def _tensor_output(result: Any, output: int) -> Tensor:
    return tensor_outputs(result)[output]


def draws(module: nn.Module) -> bool:
    """Whether the module draws random numbers when called: dropout of any kind, in training mode."""
    for part in module.modules():
        rate = getattr(part, "p", None) if "Dropout" in type(part).__name__ else getattr(part, "dropout", None)
        if part.training and isinstance(rate, (int, float)) and rate > 0:
            return True
    return False
