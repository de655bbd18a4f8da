"""Tracer: which call belongs to which step, and the gradient at its output paired with its input.

A forward hook keeps a call's input and puts a tensor hook on its output; the pair lives in a closure, so truncation,
`no_grad` steps and odd call orders cannot mispair it. Steps are counted by forward calls only. Forward calls seen
during a backward pass are somebody's activation checkpointing; they rebuild what was seen already and count for
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrize import ParametrizationList
from torch.utils import _pytree as pytree

from sdi.errors import CoverageError

from ..guard.arena import Arena
from ..guard.memory import Meter
from ..guard.second_run import SecondOutputs
from ..rows.plain_linear import PlainLinear
from ..rows.row_proof import OPAQUE, RowProof
from ..rows.row_rules import UNKNOWN, Block
from ..rows.value_proof import ValueProof
from ..sketching.sinks import Sink, Slot
from .body import Body
from .by_name import ByName, Moment
from .call import Call
from .deliver import Delivery
from .graph_leaves import begin_graph, carries_gradient, graph_leaves, refuse_nested, refuse_transforms, under
from .left_behind import LeftBehind
from .plan import BY_NAME, NeedsEnclosing, NeedsGraph, Plan, Unit, batch_axis, refuse_replaced
from .step_count import StepCount

Phase = Literal["forward", "backward"]
Shown = Callable[[Block], bool]


class Tracer(Delivery):
    """Counts steps and delivers gradients while `attached` and a loss is evaluated and pulled back."""

    def __init__(
        self, model: nn.Module, body: Body, plan: Plan, sinks: Mapping[str, Sink], meter: Meter, arena: Arena | None
    ) -> None:
        super().__init__(body, sinks)
        self.model, self.plan, self.meter, self.arena = model, plan, meter, arena
        self.phase: Phase = "forward"
        self.slot: Slot = None
        self.count = StepCount(body.inner)
        self.unreached: set[str] = set()  # parameters that autograd does not reach either
        self.draws = False  # whether the pass drew random numbers
        self.losses = torch.zeros(0)
        self.apart = False  # whether it is proven that no loss depends on another example
        self.leaked = False  # whether a value that a replayed call made and did not return was used outside of it
        self.computed_in: set[torch.dtype] = set()  # the types of numbers that operations on examples gave
        self.calls: Counter[str] = Counter()  # per parameter, forward calls of a unit that serves it
        self.uses: Counter[str] = Counter()  # per parameter, operations that had it as an argument
        self.outside_calls: Counter[str] = Counter()
        self.early_calls: Counter[str] = Counter()  # before the first step
        self.wrapped: dict[nn.Module, Any] = {}  # the forwards that recompute has put in place
        self.proof: ValueProof | None = None
        self.linear: PlainLinear | None = None  # where there is a proof
        self.by_name: ByName | None = None
        self.second_outputs = SecondOutputs()
        self._units = 0  # calls of units that will be run again, of which one is within another
        self._watched: list[tuple[Any, int, Shown]] = []  # outputs: node, place, whether a block tells their rows
        self._rebuilt: Any = None  # what is being run again, and how many calls that has made
        self._place = 0
        self._hooks: list[Any] = []  # on nodes of the graph
        self._tasks: set[int] = set()  # our own backward passes; the user's code may run others in between
        self._open: list[tuple[Call, LeftBehind]] = []  # calls of replayed units that have begun and not ended

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Hooks on for the duration.

        The step's comes first, so a step module may be a unit. A native unit's stands next to its arithmetic, a
        replayed one's outside all hooks of the user, because these are replayed, too.
        """
        with ExitStack() as stack:
            on = stack.enter_context  # a hook's handle takes it off again
            for unit in self.plan.units:
                if unit.route == BY_NAME:
                    continue
                on_unit, native = partial(self._on_unit, unit), unit.native is not None
                on(unit.module.register_forward_hook(on_unit, prepend=native, with_kwargs=True, always_call=native))
                if type(unit.module) is nn.Linear and native:
                    on(unit.module.register_forward_pre_hook(self._on_linear))
                if not native:
                    on(unit.module.register_forward_pre_hook(self._on_begin, prepend=True, with_kwargs=True))
            for unit in self.plan.absorbed:
                if isinstance(unit.module, ParametrizationList):  # called whenever its weight is looked at
                    continue
                on(unit.module.register_forward_pre_hook(partial(self._on_absorbed, unit), prepend=True))
            if all(step is not self.model for step in self.body.steps):
                on(self.model.register_forward_pre_hook(self._on_model, prepend=True))
            if self.body.cycle is not None:
                on(self.body.cycle.register_forward_pre_hook(self._on_cycle, prepend=True))
            for step in self.body.steps:
                on(step.register_forward_pre_hook(self._on_step, prepend=True))
            if self.body.end is not None:
                on(self.body.end.register_forward_pre_hook(self._on_end, prepend=True))
            try:
                yield
            finally:  # nothing of the graph stays behind
                self.rows = RowProof(self.n)
                self._take_off(0)
                self._watched.clear()
                self.wrapped.clear()
                self.given.clear()
                self.by_name = None

    @property
    def steps_seen(self) -> int:
        return self.count.seen

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

    @contextmanager
    def letting_go(self, ours: bool) -> Iterator[None]:
        """Takes off, in the end, the hooks that were put on nodes for the duration, if the pass is ours.

        A hook and its node hold one another, and the activations of the call, until Python collects garbage.
        """
        before = len(self._hooks)
        yield
        if ours:
            self._take_off(before)

    def _take_off(self, first: int) -> None:
        for hook in self._hooks[first:]:
            hook.remove()
        del self._hooks[first:]

    @contextmanager
    def inside(
        self,
        node: Any,
        module: nn.Module,
        outputs: list[tuple[int, Tensor]],
        tensors: list[int],
        leaves: list[Any],
        ours: bool,
    ) -> Iterator[list[Tensor]]:
        """For the duration of the backward pass through a unit that was run again: yields where its graph begins.

        In our pass the rows of its calls are followed, and those above it. The graph is not kept: its hooks hold the
        activations of the unit. It must not lead to units before it, as a value in a closure would make it.
        """
        if not ours:
            yield graph_leaves(y for _, y in outputs)
            return
        rows = RowProof(self.n) if self.owners.weighing else self.rows
        begins, nodes = rows.follow([(y, rows.block_of(node, k)) for k, y in outputs])
        if any(type(inner).__name__ == OPAQUE for inner in nodes):
            raise NeedsGraph(module)
        if self.owners.weighing:
            yield begins
            return
        above = [self.rows.block_of_leaf(leaves[i]) if leaves[i].requires_grad else UNKNOWN for i in tensors]
        self.rows.resume(node, [UNKNOWN, *above])  # the first is the leaf that begins every unit's graph
        yield begins
        self.rows.forget(nodes)

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
    def inside_unit(self) -> Iterator[None]:
        """For the duration of the call of a unit that will be run again: no step may begin within it."""
        self._units += 1
        try:
            yield
        finally:
            self._units -= 1

    @property
    def in_unit(self) -> bool:
        """Whether a unit is being called that will be run again."""
        return self._units > 0

    @property
    def moment(self) -> Moment:
        """The step that is going on, or None, and how many have begun."""
        return self.slot, self.steps_seen

    def count_calls(self, names: Sequence[str], moment: Moment | None = None) -> None:
        """Uses of parameters, by a call or by name, in the step that is going on, or was then, or outside."""
        slot, begun = moment or self.moment
        self.calls.update(names)
        if slot is None:
            self.outside_calls.update(names)
            if not begun:
                self.early_calls.update(names)

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
            if self.count.step and self.body.calls == "one":
                raise CoverageError(
                    f"the loss calls the model again after {self.count.step} steps, so a step may mean two things; "
                    "write Loop(..., calls='restart') to count the steps of each call from 1, calls='continue' to "
                    "count on"
                )
            self.slot = None
            if self.body.calls == "continue":
                self.count.begin_cycle()
            else:
                self.count.restart()

    def _on_cycle(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            self.count.begin_cycle()

    def _on_step(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            refuse_transforms()
            if self._units:
                raise CoverageError(
                    f"a step begins within a call of a {type(module).__name__} that is to be run again as a part of "
                    "one step: the module calls itself; use memory='hooks'"
                )
            self.slot = self.count.begin_step() - 1

    def _on_end(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            self.slot = None

    def _on_absorbed(self, unit: Unit, module: nn.Module, args: Any) -> None:
        """A module whose parameters are served by the replay of one around it must be called within that one only."""
        if not self.counting or not torch.is_grad_enabled():
            return
        for name in unit.parameters:
            serving = self.plan.serving(name)
            if any(other.route == BY_NAME for other in serving):
                continue
            if not any(call.module is other.module for call, _ in self._open for other in serving):
                raise CoverageError(
                    f"body parameter {name!r} cannot be covered: module {unit.name!r} is called outside of the module "
                    "around it, which has to serve its parameters because its own calls do not carry one row for each "
                    "example; leave it out of Loop(body=...), or call it through one module"
                )

    def _on_begin(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        if self.forward and not self._busy and torch.is_grad_enabled():
            if self.proof is not None and not self._open:
                self.proof.enter_call()
            self._open.append((Call(module, args, kwargs), LeftBehind(list(module.modules()))))

    def _on_linear(self, module: nn.Linear, args: Any) -> None:
        if self.linear is not None and not self._busy:
            self.linear.enter(module, args)

    def _on_unit(self, unit: Unit, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if self.linear is not None and type(module) is nn.Linear:
            self.linear.leave(module, output)
        if self._busy or output is None:  # after an exception, which goes on
            return None
        if self.counting:
            self.count_calls(unit.parameters)
        if not torch.is_grad_enabled():
            return None
        refuse_transforms()
        refuse_nested(unit.name, output)
        self._place += 1
        key = self._rebuilt, self._place  # of this call, in every pass
        if unit.native is not None:
            refuse_replaced(unit, self.body, self.wrapped.get(module))
            a = args[0] if args else next(iter(kwargs.values()))
            a = self._kept(a)
            self._keep(a)
            output = output if output.requires_grad else begin_graph(output)
            deliver = partial(self.deliver_native, unit, a, a._version, output.shape, self.slot, key)
            self._hook(under(output), deliver, partial(self.tells_rows, unit.lead(output) or (1,), output.numel()))
            return output
        leaves, spec = pytree.tree_flatten(output)
        outputs = len(leaves)
        if self.forward:
            call, left = self._open.pop()
            new = [(place, x) for place, x in left.tensors() if x.requires_grad]
            call.left = [place for place, _ in new]
            leaves += [x for _, x in new]
        found = [k for k, y in enumerate(leaves) if carries_gradient(y)]
        for k in found:
            # A clone: a gradient there comes from outside the module, even if the module itself uses this output.
            leaves[k] = leaves[k].clone() if leaves[k].requires_grad else begin_graph(leaves[k])
        if self.forward:
            for (holder, name), x in zip(call.left, leaves[outputs:], strict=True):
                setattr(holder, name, x)
            if call.left:
                self.given[call] = [leaves[k] for k in found]
            if self.proof is not None and not self._open:
                self.proof.leave_call(leaves)
            if call.changed():
                raise NeedsEnclosing(unit, "it changes its input in place")
            if not found:
                raise NeedsEnclosing(unit, "its output holds no tensor that could carry a gradient")
            call.keep_sizes(leaves)
            self._keep(*call.leaves)
            draws = call.ambient.random.has_moved()
            for k in found:
                deliver = partial(self.deliver_replayed, unit, call, k, self.slot, draws, key)
                shown = partial(self.shows_axis, tuple(leaves[k].shape), batch_axis(unit.module, k))
                self._hook(leaves[k], deliver, shown)
        return pytree.tree_unflatten(leaves[:outputs], spec)

    def _kept(self, a: Tensor) -> Tensor:
        """The input of a call, for the backward pass. `proof` need not see what is made here: the model does not."""
        plain = self.proof is not None and type(a) in (Tensor, nn.Parameter)
        with torch._C._DisableTorchDispatch() if plain else nullcontext():
            return self.arena.keep(a) if self.arena is not None and self.counting else a.detach()

    def _keep(self, *inputs: Any) -> None:
        for x in inputs:
            if isinstance(x, Tensor) and self.counting:
                self.meter.add(x)

    def hook_node(self, node: Any, before: Callable[[tuple[Tensor | None, ...]], None]) -> None:
        """Call a function with the gradients of a node's outputs, when our pass comes by."""

        def in_our_pass(gradients: tuple[Tensor | None, ...]) -> None:
            if self.in_our_pass:
                before(gradients)

        self._hooks.append(node.register_prehook(in_our_pass))

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

        self._hooks.append(node.register_prehook(before))
