"""Tracer: which call belongs to which step, and the gradient at its output paired with its input.

A forward hook keeps a call's input and puts a tensor hook on its output; the pair lives in a closure, so truncation,
`no_grad` steps and odd call orders cannot mispair it. Steps are counted by forward calls only. Forward calls seen
during a backward pass are somebody's activation checkpointing; they rebuild what was seen already and count for
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from math import prod
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils import _pytree as pytree

from sdi.errors import CoverageError

from ..guard.arena import Arena
from ..guard.memory import Meter
from ..sketching.sinks import Sink, Slot
from .body import Body
from .call import Call
from .graph_leaves import begin_graph, carries_gradient, graph_leaves, refuse_nested, refuse_transforms, under
from .owners import (
    MixedRows,
    Owners,
    by_example,
    displaced,
    flat_rows,
    in_order,
    regular_owners,
    rows_by_block,
    rows_of,
)
from .plan import NeedsEnclosing, Plan, Unit, batch_axis
from .replay import OtherOutput, replay
from .routes import NoBatchAxis
from .row_proof import RowProof
from .row_rules import UNKNOWN, Block

Phase = Literal["forward", "backward"]
Shown = Callable[[Block], bool]
NO_ROWS = "its call does not carry one row for each of the {} examples"


class Tracer:
    """Counts steps and delivers gradients while `attached` and a loss is evaluated and pulled back."""

    def __init__(
        self, model: nn.Module, body: Body, plan: Plan, sinks: Mapping[str, Sink], meter: Meter, arena: Arena | None
    ) -> None:
        self.model, self.body, self.plan, self.sinks, self.meter, self.arena = model, body, plan, sinks, meter, arena
        self.phase: Phase = "forward"
        self.slot: Slot = None
        self.step = 0
        self.steps_seen = 0
        self.n = 0
        self.draws = False  # whether the pass drew random numbers
        self.losses = torch.zeros(0)
        self.apart = False  # whether it is proven that no loss depends on another example
        self.moved: int | None = None  # an example whose rows stand elsewhere than in order
        self.calls: Counter[str] = Counter()  # per parameter, forward calls of a unit that serves it
        self.uses: Counter[str] = Counter()  # per parameter, operations that had it as an argument
        self.delivered: Counter[str] = Counter()  # per parameter, gradients that arrived
        self.outside_calls: Counter[str] = Counter()
        self.early_calls: Counter[str] = Counter()  # before the first step
        self.dtypes: set[torch.dtype] = set()  # of the gradients that arrived
        self.owners = Owners()
        self.rows = RowProof(0)
        self._watched: list[tuple[Any, int, Shown]] = []  # outputs: node, place, whether a block tells their rows
        self._rebuilt: Any = None  # what is being run again, and how many calls that has made
        self._place = 0
        self._tasks: set[int] = set()  # our own backward passes; the user's code may run others in between
        self._open: list[Call] = []  # calls of replayed units that have begun and not ended
        self._busy = False  # a replay is running: its calls are ours

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Hooks on for the duration.

        The step's comes first, so a step module may be a unit. A native unit's stands next to its arithmetic, a
        replayed one's outside all hooks of the user, because these are replayed, too.
        """
        with ExitStack() as stack:
            on = stack.enter_context  # a hook's handle takes it off again
            for unit in self.plan.units:
                on_unit, native = partial(self._on_unit, unit), unit.native is not None
                on(unit.module.register_forward_hook(on_unit, prepend=native, with_kwargs=True))
                if not native:
                    on(unit.module.register_forward_pre_hook(self._on_begin, prepend=True, with_kwargs=True))
            for unit in self.plan.absorbed:
                if isinstance(unit.module, ParametrizationList):  # called whenever its weight is looked at
                    continue
                on(unit.module.register_forward_pre_hook(partial(self._on_absorbed, unit), prepend=True))
            if self.body.step is not self.model:
                on(self.model.register_forward_pre_hook(self._on_model, prepend=True))
            on(self.body.step.register_forward_pre_hook(self._on_step, prepend=True))
            if self.body.end is not None:
                on(self.body.end.register_forward_pre_hook(self._on_end, prepend=True))
            try:
                yield
            finally:  # nothing of the graph stays behind
                self.rows = RowProof(self.n)
                self._watched.clear()

    def begin(self, n: int) -> None:
        """The forward pass has ended with n losses: gradients may come."""
        self.phase, self.n = "backward", n
        self.owners.n = n
        self.rows = RowProof(n)
        for sink in self.sinks.values():
            sink.open(n, max(self.steps_seen, 1))

    def watch(self, y: Tensor) -> Tensor:
        """y, as the root of a backward pass that is ours."""
        with torch.enable_grad():
            root = y.view_as(y)
        root.register_hook(lambda _: self._tasks.add(torch._C._current_graph_task_id()))  # type: ignore[no-untyped-call]
        return root

    def follow_inside(
        self, node: Any, outputs: list[tuple[int, Tensor]], tensors: list[int], leaves: list[Any], ours: bool
    ) -> list[Tensor]:
        """Follow the graph of a unit that was run again, and go on above it. Returns where the unit's graph begins."""
        if not ours or self.owners.weighing:
            return graph_leaves(y for _, y in outputs)
        begins = self.rows.follow([(y, self.rows.block_of(node, k)) for k, y in outputs])
        above = [self.rows.block_of_leaf(leaves[i]) if leaves[i].requires_grad else UNKNOWN for i in tensors]
        self.rows.resume(node, [UNKNOWN, *above])  # the first is the leaf that begins every unit's graph
        return begins

    @property
    def in_doubt(self) -> bool:
        """Whether it is not proven of some call that the losses depend on whose rows it holds."""
        return self.n > 1 and any(
            self.rows.reaches(node) and not shown(self.rows.block_of(node, place))
            for node, place, shown in self._watched
        )

    @property
    def in_our_pass(self) -> bool:
        """Whether the backward pass that is going on is ours."""
        return torch._C._current_graph_task_id() in self._tasks

    @contextmanager
    def rebuilding(self, slot: Slot, what: Any) -> Iterator[None]:
        """A unit's forward is run again in the backward pass to rebuild its graph, as part of this step."""
        before = self.phase, self.slot, self._rebuilt, self._place
        self.phase, self.slot, self._rebuilt, self._place = "forward", slot, what, 0
        try:
            yield
        finally:
            self.phase, self.slot, self._rebuilt, self._place = before

    @contextmanager
    def pulling(self) -> Iterator[None]:
        """A rebuilt graph is pulled back: forward calls seen now are checkpointing again."""
        before, self.phase = self.phase, "backward"
        try:
            yield
        finally:
            self.phase = before

    @property
    def forward(self) -> bool:
        """Whether calls are new ones: not a checkpoint's, which rebuilds what was seen in somebody's backward pass.

        Such a pass may go on within the forward pass, where a module takes gradients.
        """
        nested = self._rebuilt is None and torch._C._current_graph_task_id() != -1
        return self.phase == "forward" and not nested

    @property
    def counting(self) -> bool:
        return not self.n and not self._busy and self.forward

    def _on_model(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            if self.step and self.body.calls == "one":
                raise CoverageError(
                    f"the loss calls the model again after {self.step} steps, so a step may mean two things; write "
                    "Loop(..., calls='restart') to count the steps of each call from 1, calls='continue' to count on"
                )
            self.slot = None
            if self.body.calls != "continue":
                self.step = 0

    def _on_step(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            refuse_transforms()
            self.slot = self.step
            self.step += 1
            self.steps_seen = max(self.steps_seen, self.step)

    def _on_end(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            self.slot = None

    def _on_absorbed(self, unit: Unit, module: nn.Module, args: Any) -> None:
        """A module whose parameters are served by the replay of one around it must be called within that one only."""
        if not self.counting or not torch.is_grad_enabled():
            return
        for name in unit.parameters:
            around = [other.module for other in self.plan.serving(name)]
            if not any(call.module is other for call in self._open for other in around):
                raise CoverageError(
                    f"body parameter {name!r} cannot be covered: module {unit.name!r} is called outside of the module "
                    "around it, which has to serve its parameters because its own calls do not carry one row for each "
                    "example; leave it out of Loop(body=...), or call it through one module"
                )

    def _on_begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self.forward and not self._busy and torch.is_grad_enabled():
            self._open.append(Call(module, args, kwargs))

    def _on_unit(self, unit: Unit, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if self._busy:
            return None
        if self.counting:
            self.calls.update(unit.parameters)
            if self.slot is None:
                self.outside_calls.update(unit.parameters)
                if not self.steps_seen:
                    self.early_calls.update(unit.parameters)
        if not torch.is_grad_enabled():
            return None
        refuse_transforms()
        refuse_nested(unit.name, output)
        self._place += 1
        key = self._rebuilt, self._place  # of this call, in every pass
        if unit.native is not None:
            a = args[0] if args else next(iter(kwargs.values()))
            a = self.arena.keep(a) if self.arena is not None and self.counting else a.detach()
            self._keep(a)
            output = output if output.requires_grad else begin_graph(output)
            deliver = partial(self._deliver_native, unit, a, a._version, output.shape, self.slot, key)
            self._hook(under(output), deliver, partial(self._tells_rows, unit.lead(output) or (1,), output.numel()))
            return output
        leaves, spec = pytree.tree_flatten(output)
        found = [k for k, y in enumerate(leaves) if carries_gradient(y)]
        for k in found:
            # A clone: a gradient there comes from outside the module, even if the module itself uses this output.
            leaves[k] = leaves[k].clone() if leaves[k].requires_grad else begin_graph(leaves[k])
        if self.forward:
            call = self._open.pop()
            if call.changed():
                raise NeedsEnclosing(unit, "it changes its input in place")
            if not found:
                raise NeedsEnclosing(unit, "its output holds no tensor that could carry a gradient")
            call.keep_sizes(leaves)
            self._keep(*call.leaves)
            draws = call.ambient.random.has_moved()
            for k in found:
                deliver = partial(self._deliver_replayed, unit, call, k, self.slot, draws, key)
                shown = partial(self._shows_axis, tuple(leaves[k].shape), batch_axis(unit.module, k))
                self._hook(leaves[k], deliver, shown)
        return pytree.tree_unflatten(leaves, spec)

    def _keep(self, *inputs: Any) -> None:
        for x in inputs:
            if isinstance(x, Tensor) and self.counting:
                self.meter.add(x)

    def _hook(self, y: Tensor, deliver: Callable[[Tensor, Block], None], shown: Shown) -> None:
        """In the backward pass, a call only rebuilds a graph for the user's checkpoint: the first one has the hook.

        On the node and not on the tensor: hooks that the user puts on the tensor later have run by then.
        """
        if not self.forward:
            return
        node, place = y.grad_fn, y.output_nr
        assert node is not None
        if self._rebuilt is None:
            self._watched.append((node, place, shown))

        def before(gradients: tuple[Tensor | None, ...]) -> None:
            delta = gradients[place]
            if delta is not None and self.in_our_pass:
                deliver(delta, self.rows.block_of(node, place))

        node.register_prehook(before)

    def _deliver_native(
        self, unit: Unit, a: Tensor, version: int, shape: torch.Size, slot: Slot, key: Any, delta: Tensor, block: Block
    ) -> None:
        if a._version != version:
            raise NeedsEnclosing(unit, "its input was changed in place after the call")
        assert unit.native is not None
        delta = delta.reshape(shape)
        lead = unit.lead(delta)
        if not lead:  # one row
            a, delta, lead = a[None], delta[None], (1,)
        owners = None
        if self.n > 1 and delta.numel():
            rows = flat_rows(delta, lead)
            if not self._tells_rows(lead, delta.numel(), block):
                owners = self._weighed(unit, key, rows)
            elif lead[0] != self.n or self.n * block != delta.numel():
                owners = rows_by_block(len(rows), rows[0].numel(), block, self.n).to(delta.device)
        if self.owners.weighing:
            return
        if owners is not None:
            a, delta = (by_example(flat_rows(x, lead), owners, self.n) for x in (a, delta))
        self._serve(unit, delta, partial(unit.native, unit.module, a, delta, unit.pick(self.sinks), slot, self.n))

    def _tells_rows(self, lead: tuple[int, ...], numel: int, block: Block) -> bool:
        """Whether a block tells whose each row is: none is of several examples."""
        if self.n <= 1 or not numel:
            return True
        rows = lead[0] if lead[1:] == (1,) else prod(lead)
        return block > 0 and block % (numel // rows) == 0

    def _shows_axis(self, shape: tuple[int, ...], axis: int, block: Block) -> bool:
        """Whether a block shows that examples stand along an axis, in order."""
        return self.n <= 1 or not prod(shape) or self.rows.shows(block, shape, axis)

    def _weighed(self, unit: Unit, key: Any, rows: Tensor) -> Tensor | None:
        """Whose rows these are, by values; None while that is being found out."""
        try:
            owners = self.owners.of(key, rows)
        except MixedRows:
            raise NeedsEnclosing(unit, NO_ROWS.format(self.n)) from None
        if owners is not None and self.moved is None:
            self.moved = displaced(owners, self.n)
        return owners

    def _deliver_replayed(
        self, unit: Unit, call: Call, k: int, slot: Slot, draws: bool, key: Any, delta: Tensor, block: Block
    ) -> None:
        lead, axis = unit.lead(delta, k), batch_axis(unit.module, k)
        owners = None
        if not self._shows_axis(tuple(delta.shape), axis, block):
            if delta.dim() <= axis:
                raise NeedsEnclosing(unit, NO_ROWS.format(self.n))
            owners = self._weighed(unit, (key, k), rows_of(delta.movedim(axis, 0), lead))
            if axis and owners is not None:  # told apart by replay along the first axis only
                if len(owners) != self.n or not in_order(owners, self.n):
                    raise NeedsEnclosing(unit, NO_ROWS.format(self.n))
                owners = None
        elif self.n > 1 and delta.numel() and delta.shape[axis] != self.n:
            owners = regular_owners(len(rows_of(delta, lead)), self.n).to(delta.device)
        if self.owners.weighing:
            return
        if call.changed():
            raise NeedsEnclosing(unit, "its input was changed in place after the call")
        parameters, sinks = unit.pick(self.body.parameters), unit.pick(self.sinks)
        try:
            self._serve(unit, delta, partial(replay, call, k, delta, parameters, sinks, slot, self.n, draws, owners))
        except OtherOutput:
            raise NeedsEnclosing(unit, "it gives another output when it is run again, so it keeps state") from None
        except (IndexError, KeyError, AttributeError) as error:
            raise CoverageError(
                f"module {unit.name!r} cannot be run again as it was called ({type(error).__name__}: {error}), which "
                f"{unit.parameters} need; it seems to keep state between calls, such as a count of steps"
            ) from error

    def _serve(self, unit: Unit, delta: Tensor, route: Callable[[], Collection[str] | None]) -> None:
        self.dtypes.add(delta.dtype)
        self._busy = True
        try:
            with torch.no_grad():
                used = route() if delta.numel() else None  # a call without tokens adds nothing
        except NoBatchAxis:
            raise NeedsEnclosing(unit, NO_ROWS.format(self.n)) from None
        finally:
            self._busy = False
        for local, name in unit.locals.items():
            if used is None or local in used:
                self.delivered[name] += 1
