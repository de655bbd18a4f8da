"""Replay: per-example gradients of one module by differentiating that module alone, example by example.

Serves any module: custom norms, packed attention, bare parameters, low-rank additions, convolutions of any kind.
It keeps the call's inputs, and when the gradient `delta` at an output arrives, it runs the module once more and pulls
`delta` back to the module's own parameters. Vectorised over examples where that gives the same output as the call
itself; one pullback per example where the module draws random numbers, mixes what looks like the batch axis, or cannot
be vectorised.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.utils import _pytree as pytree

from ..guard.checkpointing import no_checkpoints
from ..guard.restore_attributes import attributes_put_back
from ..guard.second_run import second_run
from ..rows.owners import in_order
from ..sketching.sinks import Sink, Slot
from .call import Call, all_true, same_output
from .plan import batch_axis, input_axis
from .routes import NoBatchAxis

REMEDY = "give it what it needs as arguments that can be used again, or leave it out of Loop(body=...)"


class OtherOutput(Exception):
    """The module, run again, gave something else than before."""


def replay(
    call: Call,
    output: int,
    delta: Tensor,
    parameters: Mapping[str, nn.Parameter],
    sinks: Mapping[str, Sink],
    slot: Slot,
    n: int,
    draws: bool,
    owners: Int[Tensor, "R"] | None = None,
) -> list[str]:
    """Run a call again, hand the per-example gradients of `parameters` (by names within the module) to their sinks,
    and return the names of those that the output depends on.

    output: the number of the output. delta: the gradient there. slot: its loop step. n: examples.
    draws: the module draws random numbers. owners: the example of each row of the output, if it has no batch axis.
    """
    axis = batch_axis(call.module, output)
    size = n if owners is None else len(owners)  # of the batch axis: several places for each example, perhaps
    at = [i for i, x in enumerate(call.leaves) if _is_batched(x, input_axis(call.module, i), size)]
    if n > 1 and owners is None and (not at or not _is_batched(delta, axis, n)):
        raise NoBatchAxis
    weights = {name: p.detach().clone().requires_grad_() for name, p in parameters.items()}
    with call.ambient.again(), torch.enable_grad(), second_run(call.module, REMEDY, (LookupError, AttributeError)):
        outputs = _run(call, weights, call.leaves)
    if not all_true([call.gives_again(outputs)]):
        raise OtherOutput
    y = outputs[output]
    total = _total(y, delta, weights)
    if not total:
        return []
    weights = {name: weights[name] for name in total}
    gradients = {name: part[None] for name, part in total.items()} if n == 1 else None
    if n > 1 and not draws and at and (owners is None or in_order(owners, n)):
        gradients = _vectorised(call, output, y.detach(), delta, weights, at, axis, n)
    if gradients is None or not _sums_to(gradients, total):  # a shared input that was split may not show in y
        gradients = _one_by_one(y, _each(delta, axis, n, owners), weights)
    for name, G in gradients.items():
        sinks[name].whole(slot, G)
    return list(weights)


def _is_batched(x: Any, axis: int, n: int) -> bool:
    return isinstance(x, Tensor) and x.dim() > axis and x.shape[axis] == n


def _run(call: Call, weights: Mapping[str, Tensor], leaves: list[Any]) -> list[Any]:
    """The call's outputs, with these weights and inputs; then what it leaves on its modules."""
    args, kwargs = call.inputs(leaves)
    # Every place of a parameter, each once: functional_call's own tying does not put back a module under two names.
    tied = {id(call.module.get_parameter(name)): w for name, w in weights.items()}
    places = {
        f"{name}.{local}".lstrip("."): tied[id(p)]
        for name, module in call.module.named_modules()
        for local, p in module._parameters.items()
        if id(p) in tied
    }
    with no_checkpoints(), attributes_put_back(list(call.module.modules())):
        outputs = pytree.tree_leaves(functional_call(call.module, places, args, kwargs, tie_weights=False))
        return outputs + [getattr(module, name) for module, name in call.left]


def _total(y: Tensor, delta: Tensor, weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """The gradients of all examples together, of the weights that y depends on."""
    if not y.requires_grad:
        return {}
    parts = torch.autograd.grad(y, list(weights.values()), delta.to(y.dtype), retain_graph=True, allow_unused=True)
    return {name: part for name, part in zip(weights, parts, strict=True) if part is not None}


def _sums_to(gradients: Mapping[str, Tensor], total: Mapping[str, Tensor]) -> bool:
    near = []
    for name, G in gradients.items():
        size = torch.linalg.vector_norm(G.reshape(len(G), -1), dim=1).sum() + total[name].norm()
        near.append((G.sum(dim=0) - total[name]).norm() <= same_output(G.dtype) * size)
    return all_true(near)


def _vectorised(
    call: Call, output: int, y: Tensor, delta: Tensor, weights: dict[str, Tensor], at: list[int], axis: int, n: int
) -> dict[str, Tensor] | None:
    """vmap over examples of the pullback, each with its own batch axis; None unless it gives the output y again."""

    def split(x: Tensor, axis: int) -> Tensor:
        return x.reshape(*x.shape[:axis], n, -1, *x.shape[axis + 1 :])  # (..., n, k, ...)

    def value(w: dict[str, Tensor], rows: list[Tensor], delta_row: Tensor) -> tuple[Tensor, Tensor]:
        leaves = list(call.leaves)
        for i, row in zip(at, rows, strict=True):
            leaves[i] = row
        y_row = _run(call, w, leaves)[output]
        return _inner(y_row.to(delta_row.dtype), delta_row), y_row

    axes = [input_axis(call.module, i) for i in at]
    pullback = vmap(grad(value, has_aux=True), in_dims=(None, axes, axis), out_dims=(0, axis))
    try:
        with call.ambient.again(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # vmap's hints about speed
            own = {name: w.detach() for name, w in weights.items()}
            rows = [split(call.leaves[i], its) for i, its in zip(at, axes, strict=True)]
            gradients, again = pullback(own, rows, split(delta, axis))
            again = again.flatten(axis, axis + 1)
    except Exception:  # whatever vmap cannot follow, the pullback of each example will, or will fail with its own error
        return None
    same = again.shape == y.shape and bool((again - y).norm() <= same_output(y.dtype) * y.norm())
    return gradients if same else None


def _inner(y: Tensor, delta: Tensor) -> Tensor:
    """A number whose gradient at y is delta: the inner product of the two."""
    product = y * delta.conj()
    return product.real.sum() if product.is_complex() else product.sum()


def _each(delta: Tensor, axis: int, n: int, owners: Int[Tensor, "R"] | None) -> Iterator[Tensor]:
    """For each example in turn, delta with the other examples' entries set to zero."""
    if owners is None:
        shape = [n if k == axis else 1 for k in range(delta.dim())]
        owners = torch.arange(n, device=delta.device)
    else:
        lead = 1 if len(owners) == len(delta) else 2  # rows, or one block of rows
        shape = [*delta.shape[:lead], *[1] * (delta.dim() - lead)]
    owners = owners.to(delta.device)
    for i in range(n):
        yield torch.where((owners == i).view(shape), delta, 0)


def _one_by_one(y: Tensor, deltas: Iterable[Tensor], weights: dict[str, Tensor]) -> dict[str, Tensor]:
    """One pullback per example."""
    gradients: dict[str, list[Tensor]] = {name: [] for name in weights}
    for delta in deltas:
        only = delta.to(y.dtype)
        parts = torch.autograd.grad(y, list(weights.values()), only, retain_graph=True)
        for name, part in zip(weights, parts, strict=True):
            gradients[name].append(part)
    return {name: torch.stack(parts) for name, parts in gradients.items()}
