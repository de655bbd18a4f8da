"""Tracer: which call belongs to which step, and the gradient at its output paired with its input.

A forward hook keeps a call's input and puts a tensor hook on its output; the pair lives in a closure, so truncation,
`no_grad` steps and odd call orders cannot mispair it. Steps are counted by forward calls only. Forward calls seen
during the backward pass are somebody's activation checkpointing; they rebuild what was seen already and count for
nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from .body import Body
from .memory import Meter
from .plan import Plan, Unit
from .replay import Call, replay, tensor_outputs
from .routes import NoBatchAxis
from .sinks import Sink, Slot

Phase = Literal["forward", "backward"]


class NeedsEnclosing(Exception):
    """A unit cannot be served by its own call; the module around it has to be replayed."""

    def __init__(self, unit: Unit, why: str, parameters: list[str] | None = None) -> None:
        super().__init__(why)
        self.unit, self.why, self.parameters = unit, why, parameters or unit.parameters


class Tracer:
    """Counts steps and delivers gradients while `attached` and a loss is evaluated and pulled back."""

    def __init__(self, model: nn.Module, body: Body, plan: Plan, sinks: Mapping[str, Sink], meter: Meter) -> None:
        self.model, self.body, self.plan, self.sinks, self.meter = model, body, plan, sinks, meter
        self.phase: Phase = "forward"
        self.slot: Slot = None
        self.step = 0
        self.steps_seen = 0
        self.n = 0
        self.leaves: list[Tensor] = []
        self.calls: Counter[str] = Counter()  # per parameter, forward calls of a unit that serves it
        self.delivered: Counter[str] = Counter()  # per parameter, gradients that arrived
        self.outside_calls: Counter[str] = Counter()
        self._busy = False  # a replay is running: its calls are ours

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Hooks on for the duration. The step's hook comes before those of units, so a step module may be one."""
        with ExitStack() as stack:
            hooks = [self.model.register_forward_pre_hook(self._on_model, prepend=True)]
            hooks.append(self.body.step.register_forward_pre_hook(self._on_step, prepend=True))
            if self.body.end is not None:
                hooks.append(self.body.end.register_forward_pre_hook(self._on_end, prepend=True))
            for unit in self.plan.units:
                hooks.append(unit.module.register_forward_hook(partial(self._on_unit, unit), with_kwargs=True))
            for hook in hooks:
                stack.callback(hook.remove)
            yield

    def begin(self, n: int) -> None:
        """The forward pass has ended with n losses: gradients may come."""
        self.phase, self.n = "backward", n
        for sink in self.sinks.values():
            sink.open(n, max(self.steps_seen, 1))

    @contextmanager
    def rebuilding(self, slot: Slot) -> Iterator[None]:
        """A unit's forward is run again in the backward pass to rebuild its graph, as part of this step."""
        before = self.phase, self.slot
        self.phase, self.slot = "forward", slot
        try:
            yield
        finally:
            self.phase, self.slot = before

    @contextmanager
    def pulling(self) -> Iterator[None]:
        """A rebuilt graph is pulled back: forward calls seen now are checkpointing again."""
        before, self.phase = self.phase, "backward"
        try:
            yield
        finally:
            self.phase = before

    @property
    def counting(self) -> bool:
        return self.phase == "forward" and not self._busy and not self.n

    def _on_model(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            self.step, self.slot = 0, None

    def _on_step(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            self.slot = self.step
            self.step += 1
            self.steps_seen = max(self.steps_seen, self.step)

    def _on_end(self, module: nn.Module, args: Any) -> None:
        if self.counting:
            self.slot = None

    def _on_unit(self, unit: Unit, module: nn.Module, args: Any, kwargs: Any, output: Any) -> Any:
        if self.phase != "forward" or self._busy:
            return None
        if self.counting:
            self.calls.update(unit.parameters)
            if self.slot is None:
                self.outside_calls.update(unit.parameters)
        if not torch.is_grad_enabled():
            return None
        slot = self.slot
        if unit.native is not None:
            a = args[0] if args else next(iter(kwargs.values()))
            if self.counting:
                self.meter.add(a)
            output, replaced = self._require_grad(output)
            output.register_hook(partial(self._deliver_native, unit, a.detach(), a._version, slot))
            return output if replaced else None
        call = Call(module, args, kwargs)
        for k, y in enumerate(tensor_outputs(output)):
            if not y.dtype.is_floating_point:
                continue
            if not y.requires_grad:
                if not isinstance(output, Tensor):
                    raise NeedsEnclosing(unit, "its outputs do not require a gradient and are not a single tensor")
                output, _ = self._require_grad(output)
                output.register_hook(partial(self._deliver_replayed, unit, call, k, slot))
                return output
            y.register_hook(partial(self._deliver_replayed, unit, call, k, slot))
        return None

    def _require_grad(self, output: Tensor) -> tuple[Tensor, bool]:
        """Where nothing upstream requires a gradient, the graph begins at this output."""
        if output.requires_grad:
            return output, False
        leaf = output.detach().requires_grad_()
        self.leaves.append(leaf)
        return leaf.clone(), True  # a clone may be changed in place by what follows; a leaf may not

    def _deliver_native(self, unit: Unit, a: Tensor, version: int, slot: Slot, delta: Tensor) -> None:
        if a._version != version:
            raise NeedsEnclosing(unit, "its input was changed in place after the call")
        assert unit.native is not None
        self._serve(unit, partial(unit.native, unit.module, a, delta, unit.pick(self.sinks), slot, self.n))

    def _deliver_replayed(self, unit: Unit, call: Call, k: int, slot: Slot, delta: Tensor) -> None:
        parameters = unit.pick(self.body.parameters)
        self._serve(unit, partial(replay, unit.module, call, k, delta, parameters, unit.pick(self.sinks), slot, self.n))

    def _serve(self, unit: Unit, route: Callable[[], Collection[str] | None]) -> None:
        self._busy = True
        try:
            with torch.no_grad():
                used = route()
        except NoBatchAxis:
            raise NeedsEnclosing(unit, f"its call does not carry one row for each of the {self.n} examples") from None
        finally:
            self._busy = False
        self.delivered.update(unit.parameters if used is None else [unit.locals[local] for local in used])
