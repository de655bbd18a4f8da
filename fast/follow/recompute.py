"""Recompute: body units keep only their inputs; their graphs are rebuilt, one at a time, as the backward pass comes by.

A unit here is a module that the Loop names (or, where that is a list or contains the loop, its children), at its
outermost call. Peak memory then holds one unit's activations, and the inputs of the others. A module that takes, fills
or returns an object with tensors in it (a cache, a dataclass), where PyTorch sees no graph, is not a unit, but its
children may be.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from sdi.errors import CoverageError
from sdi.loop import Loop

from ..guard.restore_attributes import attributes_put_back
from ..guard.second_run import second_run
from .body import Body
from .call import Call
from .graph_leaves import carries_gradient
from .held_tensors import held_tensors
from .left_behind import LeftBehind, Place
from .plan import NeedsGraph
from .tracer import Tracer


@contextmanager
def recomputing(
    model: nn.Module, loop: Loop, body: Body, tracer: Tracer, graph_kept: Sequence[nn.Module]
) -> Iterator[None]:
    """Replace the forward of every unit for the duration. graph_kept: modules that are not units."""
    with ExitStack() as stack:
        named = {id(body.parameters[name]) for name in tracer.plan.by_name}
        for module in recompute_units(model, loop, body, named, graph_kept):
            had = "forward" in vars(module)
            original = module.forward
            module.forward = _Wrapped(module, original, tracer)
            if not had:
                tracer.wrapped[module] = module.forward
            stack.callback(_restore, module, original if had else None)
        yield


def _restore(module: nn.Module, original: Any) -> None:
    if original is None:
        del module.forward
    else:
        module.forward = original


def recompute_units(
    model: nn.Module,
    loop: Loop,
    body: Body,
    named: Container[int] = frozenset(),
    graph_kept: Sequence[nn.Module] = (),
) -> list[nn.Module]:
    """The outermost modules named by the Loop that are called and do not contain the loop, nor one of `graph_kept`, nor
    a parameter with one of the numbers `named`: those are followed by name."""
    units: list[nn.Module] = []

    def visit(module: nn.Module) -> None:
        apart = body.marks_inside(module) or isinstance(module, (nn.ModuleList, nn.ModuleDict))
        apart = apart or any(kept is part for kept in graph_kept for part in module.modules())
        if apart or any(id(p) in named for p in module.parameters()):
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
        self.modules = list(module.modules())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled() or not self.tracer.counting:
            return self.original(*args, **kwargs)
        if self.tracer.by_name is not None:
            args, kwargs = self.tracer.by_name.passed(args, kwargs)
        run = _Run(self, Call(self.module, args, kwargs))
        tensors = [x for x in pytree.tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        start = torch.zeros((), requires_grad=True)  # so that there is a graph even if no input has one
        outputs = _Recompute.apply(run, start, *tensors)  # type: ignore[no-untyped-call]
        out = run.merge(outputs)
        run.put_back(out[len(out) - len(run.left) :])
        if run.left:  # kept until the pass ends: a hook that the user puts on them must be seen in the backward pass
            self.tracer.given[run] = [y for y in out if isinstance(y, Tensor)]
        return pytree.tree_unflatten(out[: len(out) - len(run.left)], run.out_spec)


class _Run:
    """One call, and the step it belongs to."""

    def __init__(self, wrapped: _Wrapped, call: Call) -> None:
        self.wrapped, self.call = wrapped, call
        self.slot = wrapped.tracer.slot
        self.constants: list[Any] = []
        self.out_spec: Any = None
        self.left: list[Place] = []  # where the call has left a tensor for others: outputs as well
        for x in call.leaves:
            if isinstance(x, Tensor):
                wrapped.tracer.meter.add(x)

    def forward(self, leaves: list[Any]) -> list[Any]:
        args, kwargs = self.call.inputs(leaves)
        left, held = LeftBehind(self.wrapped.modules), held_tensors(leaves)
        with self.wrapped.tracer.inside_unit():
            out, self.out_spec = pytree.tree_flatten(self.wrapped.original(*args, **kwargs))
        after = held_tensors(leaves)
        filled = len(after) != len(held) or any(x is not y for x, y in zip(after, held, strict=True))
        if filled or any(x.requires_grad for x in held) or held_tensors(out):
            raise NeedsGraph(self.wrapped.module)
        if pytree.tree_structure((args, kwargs)) != self.call.spec:
            raise CoverageError(
                f"a {type(self.call.module).__name__} puts something into a list or dict that it is given, which is "
                "lost when it is run again; return it, or use memory='hooks'"
            )
        new = left.tensors()
        self.left = [place for place, _ in new]
        if (place := left.in_containers()) is not None:
            raise CoverageError(
                f"a {type(place[0]).__name__} leaves tensors in its attribute {place[1]!r}, where they lose their "
                "gradient when the module is run again; return them, leave each in an attribute of its own, or "
                "use memory='hooks'"
            )
        return out + [x for _, x in new]

    def put_back(self, tensors: list[Tensor]) -> None:
        """What the call has left on its modules, with the graph that the call's outputs have."""
        for (module, name), x in zip(self.left, tensors, strict=True):
            setattr(module, name, x)

    def merge(self, tensors: tuple[Tensor, ...]) -> list[Any]:
        """The outputs with the tensors that carry a graph put back in their places."""
        rest = iter(tensors)
        return [next(rest) if c is _GRAPH else c for c in self.constants]


_GRAPH = object()


class _Recompute(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, run: _Run, start: Tensor, *inputs: Tensor) -> Any:
        ctx.run = run
        out = run.forward(run.call.leaves)
        run.call.keep_sizes(out)
        run.constants = [_GRAPH if carries_gradient(y) else y for y in out]
        return tuple(y.detach() for y in out if carries_gradient(y))  # what the module passes through stays as it is

    @staticmethod
    def backward(ctx: Any, *deltas: Tensor) -> Any:
        tracer = ctx.run.wrapped.tracer
        ours = tracer.in_our_pass  # not a gradient that the user's code takes, perhaps several times
        with tracer.letting_go(ours):
            return _run_again(ctx, deltas, tracer, ours)


def _run_again(ctx: Any, deltas: tuple[Tensor, ...], tracer: Tracer, ours: bool) -> Any:
    """The gradients of a unit's inputs, from those of its outputs."""
    run, wanted = ctx.run, ctx.needs_input_grad[2:]
    if ours and not tracer.owners.weighing:
        ctx.run = None
    tracer.refuse_hooks(run, run.call.module)
    if run.call.changed():
        raise RuntimeError(
            f"an input of the {type(run.call.module).__name__} was changed in place after or during its call, so "
            "that it cannot be run again; use memory='hooks'"
        )
    leaves = list(run.call.leaves)
    tensors = [i for i, x in enumerate(leaves) if isinstance(x, Tensor)]
    for i, want in zip(tensors, wanted, strict=True):
        leaves[i] = leaves[i].detach().requires_grad_(want)
    again_with = second_run(run.call.module, "use memory='hooks'")
    as_it_was = attributes_put_back(run.wrapped.modules)
    with torch.enable_grad(), run.call.ambient.again(), tracer.rebuilding(run.slot, run), again_with, as_it_was:
        again = run.forward(leaves)
    tracer.second_outputs.expect(run.call.module, run.call.gives_again(again))
    out = [y for y in again if carries_gradient(y)]
    roots = [(y, d) for y, d in zip(out, deltas, strict=True) if y.requires_grad]
    if not roots:
        return (None, None, *(None for _ in wanted))
    inputs = [leaves[i] for i, want in zip(tensors, wanted, strict=True) if want]
    outputs = [(k, y) for k, y in enumerate(out) if y.requires_grad]
    with tracer.inside(ctx, run.call.module, outputs, tensors, leaves, ours) as begins, tracer.pulling():
        others = [x for x in begins if all(x is not i for i in inputs)]
        ends = [tracer.watch(y) if ours else y for y, _ in roots]
        grads = iter(torch.autograd.grad(ends, inputs + others, [d for _, d in roots], allow_unused=True))
    return (None, None, *(next(grads) if want else None for want in wanted))
