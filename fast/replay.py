"""Replay: per-example gradients of one module by differentiating that module alone, example by example.

Serves any module: custom norms, packed attention, bare parameters, low-rank additions, convolutions of any kind.
It keeps the call's inputs, and when the gradient `delta` at an output arrives, it runs the module once more and pulls
`delta` back to the module's own parameters. Vectorised over examples where that gives the same output as the call
itself; one pullback per example where the module draws random numbers, mixes what looks like the batch axis, or cannot
be vectorised.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils import _pytree as pytree

from .call import Call
from .checkpointing import no_checkpoints
from .routes import NoBatchAxis
from .sinks import Sink, Slot

SAME_OUTPUT = 1000  # eps, of the output's norm: a wrong split of the inputs is off by more


def replay(
    call: Call,
    output: int,
    delta: Tensor,
    parameters: Mapping[str, nn.Parameter],
    sinks: Mapping[str, Sink],
    slot: Slot,
    n: int,
    draws: bool,
) -> list[str]:
    """Hand the per-example gradients of `parameters` (names within the module) to their sinks.

    Returns the names of those that the output depends on.
    """
    axis = 0 if getattr(call.module, "batch_first", True) else 1
    at = [i for i, x in enumerate(call.leaves) if _is_batched(x, axis, n)]
    if not at or not _is_batched(delta, axis, n):
        raise NoBatchAxis
    weights = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}
    with call.ambient.again(), torch.enable_grad():
        y = _run(call, weights, call.leaves, output)
    weights = _used(y, weights)
    if not weights:
        return []
    gradients = None if draws else _vectorised(call, output, y.detach(), delta, weights, at, axis)
    if gradients is None:
        gradients = _one_by_one(y, delta, weights, axis, n)
    for name, G in gradients.items():
        sinks[name].whole(slot, G)
    return list(weights)


def _is_batched(x: Any, axis: int, n: int) -> bool:
    return isinstance(x, Tensor) and x.dim() > axis and x.shape[axis] == n


def _run(call: Call, weights: Mapping[str, Tensor], leaves: list[Any], output: int) -> Tensor:
    """One of the call's outputs, with these weights and inputs."""
    args, kwargs = call.inputs(leaves)
    # Every place of a parameter, each once: functional_call's own tying does not put back a module under two names.
    tied = {id(call.module.get_parameter(name)): w for name, w in weights.items()}
    places = {
        f"{name}.{local}".lstrip("."): tied[id(p)]
        for name, module in call.module.named_modules()
        for local, p in module._parameters.items()
        if id(p) in tied
    }
    with no_checkpoints():
        return pytree.tree_leaves(functional_call(call.module, places, args, kwargs, tie_weights=False))[output]


def _used(y: Tensor, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """Those in the graph of y."""
    if not y.requires_grad:
        return {}
    parts = torch.autograd.grad(y, list(weights.values()), torch.zeros_like(y), retain_graph=True, allow_unused=True)
    return {name: w for (name, w), part in zip(weights.items(), parts, strict=True) if part is not None}


def _vectorised(
    call: Call, output: int, y: Tensor, delta: Tensor, weights: dict[str, Tensor], at: list[int], axis: int
) -> dict[str, Tensor] | None:
    """vmap over examples of the pullback, each with a batch axis of one; None unless it gives the output y again."""

    def value(w: dict[str, Tensor], rows: list[Tensor], delta_row: Tensor) -> tuple[Tensor, Tensor]:
        leaves = list(call.leaves)
        for i, row in zip(at, rows, strict=True):
            leaves[i] = row.unsqueeze(axis)
        y_row = _run(call, w, leaves, output)
        return _inner(y_row.to(delta_row.dtype), delta_row.unsqueeze(axis)), y_row.squeeze(axis)

    pullback = vmap(grad(value, has_aux=True), in_dims=(None, axis, axis), out_dims=(0, axis))
    try:
        with call.ambient.again(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # vmap's hints about speed
            gradients, again = pullback(
                {k: w.detach() for k, w in weights.items()}, [call.leaves[i] for i in at], delta
            )
    except Exception:  # whatever vmap cannot follow, the pullback of each example will, or will fail with its own error
        return None
    tolerance = min(SAME_OUTPUT * torch.finfo(y.dtype).eps, 0.05)
    same = again.shape == y.shape and bool((again - y).norm() <= tolerance * y.norm())
    return gradients if same else None


def _inner(y: Tensor, delta: Tensor) -> Tensor:
    """What has the gradient delta at y."""
    product = y * delta.conj()
    return product.real.sum() if product.is_complex() else product.sum()


def _one_by_one(y: Tensor, delta: Tensor, weights: dict[str, Tensor], axis: int, n: int) -> dict[str, Tensor]:
    """One pullback per example."""
    gradients: dict[str, list[Tensor]] = {name: [] for name in weights}
    for i in range(n):
        only = torch.zeros_like(y)
        only.narrow(axis, i, 1).copy_(delta.narrow(axis, i, 1))
        parts = torch.autograd.grad(y, list(weights.values()), only, retain_graph=True)
        for name, part in zip(weights, parts, strict=True):
            gradients[name].append(part)
    return {name: torch.stack(parts) for name, parts in gradients.items()}
