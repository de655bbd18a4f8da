"""Recompute: body units keep only their inputs; their graphs are rebuilt, one at a time, as the backward pass comes by.

A unit here is a module that the Loop names (or, where that is a list or contains the loop, its children), at its
outermost call. Peak memory then holds one unit's activations, and the inputs of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sdi.loop import Loop

from .body import Body
from .replay import draws
from .tracer import Tracer


@contextmanager
def recomputing(model: nn.Module, loop: Loop, body: Body, tracer: Tracer) -> Iterator[None]:
    """Replace the forward of every unit for the duration."""
    with ExitStack() as stack:
        for module in recompute_units(model, loop, body):
            had = "forward" in vars(module)
            original = module.forward
            module.forward = _Wrapped(module, original, tracer)  # type: ignore[method-assign]
            stack.callback(_restore, module, original if had else None)
        yield


def _restore(module: nn.Module, original: Any) -> None:
    if original is None:
        del module.forward
    else:
        module.forward = original  # type: ignore[method-assign]


def recompute_units(model: nn.Module, loop: Loop, body: Body) -> list[nn.Module]:
    """The outermost modules named by the Loop that are called and do not contain the loop."""
    units: list[nn.Module] = []

    def visit(module: nn.Module) -> None:
        holds_step = any(m is body.step for m in module.modules() if m is not module)
        if holds_step or isinstance(module, (nn.ModuleList, nn.ModuleDict)):
            for child in module.children():
                visit(child)
        elif any(True for _ in module.parameters()) and all(m is not module for m in units):
            units.append(module)

    for entry in loop.body:
        if not isinstance(entry, str):
            visit(entry)
        elif any(name == entry for name, _ in model.named_modules(remove_duplicate=False)):
            visit(model.get_submodule(entry))
    inner = {id(m) for u in units for m in u.modules() if m is not u}
    return [u for u in units if id(u) not in inner]


class _Wrapped:
    """A unit's forward without a graph, remembered well enough to be run again with one."""

    def __init__(self, module: nn.Module, original: Callable[..., Any], tracer: Tracer) -> None:
        self.module, self.original, self.tracer = module, original, tracer

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or self.tracer.phase != "forward" or not self.tracer.counting:
            return self.original(*args, **kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))
        run = _Run(self, [x.detach() if isinstance(x, Tensor) else x for x in leaves], spec)
        at = [i for i, x in enumerate(leaves) if isinstance(x, Tensor) and x.requires_grad]
        start = torch.zeros((), requires_grad=True)  # so that there is a graph even if no input has one
        self.tracer.leaves.append(start)
        outputs = _Recompute.apply(run, at, start, *(leaves[i] for i in at))
        return pytree.tree_unflatten(run.merge(outputs), run.out_spec)


class _Run:
    """One call: what it was given, the step it belongs to, and the random state it started from."""

    def __init__(self, wrapped: _Wrapped, leaves: list[Any], spec: Any) -> None:
        self.wrapped, self.leaves, self.spec = wrapped, leaves, spec
        self.slot = wrapped.tracer.slot
        for x in leaves:
            if isinstance(x, Tensor):
                wrapped.tracer.meter.add(x)
        self.random = torch.get_rng_state() if draws(wrapped.module) else None
        self.autocast = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        self.constants: list[Any] = []
        self.out_spec: Any = None

    def forward(self, leaves: list[Any]) -> list[Any]:
        args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        out, self.out_spec = pytree.tree_flatten(self.wrapped.original(*args, **kwargs))
        return out

    def merge(self, tensors: tuple[Tensor, ...]) -> list[Any]:
        """The outputs with the tensors that carry a graph put back in their places."""
        rest = iter(tensors)
        return [next(rest) if c is _GRAPH else c for c in self.constants]


_GRAPH = object()


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, at: list[int], start: Tensor, *inputs: Tensor) -> Any:
        ctx.run, ctx.at = run, at
        out = run.forward(run.leaves)
        graph = [isinstance(y, Tensor) and y.dtype.is_floating_point for y in out]
        run.constants = [_GRAPH if g else y for g, y in zip(graph, out, strict=True)]
        return tuple(y for g, y in zip(graph, out, strict=True) if g)

    @staticmethod
    def backward(ctx: Any, *deltas: Tensor) -> Any:
        run, tracer = ctx.run, ctx.run.wrapped.tracer
        leaves = list(run.leaves)
        for i in ctx.at:
            leaves[i] = leaves[i].detach().requires_grad_()
        before, tracer.leaves = tracer.leaves, []
        here = torch.get_rng_state()
        try:
            if run.random is not None:
                torch.set_rng_state(run.random)
            on, dtype = run.autocast
            with torch.enable_grad(), torch.autocast("cpu", enabled=on, dtype=dtype), tracer.rebuilding(run.slot):
                out = [y for y in run.forward(leaves) if isinstance(y, Tensor) and y.dtype.is_floating_point]
            roots = [(y, d) for y, d in zip(out, deltas, strict=True) if y.requires_grad]
            inputs = [leaves[i] for i in ctx.at]
            if not roots:
                return (None, None, None, *(None for _ in inputs))
            with tracer.pulling():
                grads = torch.autograd.grad(
                    [y for y, _ in roots], inputs + tracer.leaves, [d for _, d in roots], allow_unused=True
                )
        finally:
            tracer.leaves = before
            torch.set_rng_state(here)
            ctx.run = None
        return (None, None, None, *grads[: len(inputs)])
