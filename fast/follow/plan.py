"""Plan: which module's calls serve which body parameter, and by which route.

Every parameter starts at the modules that own it: natively where the module's arithmetic is known, by replay where it
is not. A parameter whose module is never called itself (packed attention calls none of its parts), or whose calls carry
no batch axis, moves to the enclosing module, which is replayed whole. One whose module holds the loop is followed by
name (`by_name`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

from torch import Tensor, nn

from sdi.errors import CoverageError

from .body import Body
from .routes import Native, native_route

T = TypeVar("T")
BY_NAME = "by name"


@dataclass(frozen=True, eq=False)
class Unit:
    """A module whose calls are watched, and the body parameters that these calls serve."""

    name: str
    module: nn.Module
    locals: dict[str, str]  # the parameter's name within the module -> its name in the body
    route: str
    native: Native | None
    forward: Any = None  # of its module's class, when the plan was made
    known: frozenset[str] = frozenset()  # its module's own parameters then, those that are not traced included

    @property
    def parameters(self) -> list[str]:
        return list(self.locals.values())

    def lead(self, y: Tensor, place: int = 0) -> tuple[int, ...]:
        """The shape of an output without its columns (one row's numbers): normally (examples, tokens)."""
        if self.native is None:
            axis = batch_axis(self.module, place)
            return (y.shape[axis], *y.shape[:axis], *y.shape[axis + 1 : -1]) if y.dim() > axis + 1 else ()
        if not self._columns:
            return len(y), 1
        return tuple(y.shape[: y.dim() - self._columns])

    @cached_property
    def _columns(self) -> int:
        """How many last axes of a native output belong to one row; 0 for convolutions, where a row is an example."""
        if isinstance(self.module, (nn.Conv1d, nn.Conv2d)):
            return 0
        return len(getattr(self.module, "normalized_shape", " "))

    def pick(self, of: Mapping[str, T]) -> dict[str, T]:
        return {local: of[name] for local, name in self.locals.items()}


def batch_axis(module: nn.Module, place: int) -> int:
    """The batch axis of output number `place`: 1 in the states of recurrent layers, 0 in the weights of attention,
    else as `batch_first` says."""
    if place > 0 and isinstance(module, (nn.RNNBase, nn.MultiheadAttention)):
        return int(isinstance(module, nn.RNNBase))
    return 0 if getattr(module, "batch_first", True) else 1


def input_axis(module: nn.Module, place: int) -> int:
    """The batch axis of input number `place`, likewise. A mask of attention may have another, which replay notices."""
    return 0 if getattr(module, "batch_first", True) and not (place > 0 and isinstance(module, nn.RNNBase)) else 1


class NeedsEnclosing(Exception):
    """A unit cannot be served by its own call; the module around it has to be replayed."""

    def __init__(self, unit: Unit, why: str, parameters: list[str] | None = None, mixed: bool = False) -> None:
        super().__init__(why)
        self.unit, self.why, self.parameters = unit, why, parameters or unit.parameters
        self.mixed = mixed  # rows may depend on more than one example


class NeedsGraph(Exception):
    """Under recompute, the graph of a module's calls has to be kept: begin again, with its children as units."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(type(module).__name__)
        self.module = module


@dataclass(frozen=True, eq=False)
class Plan:
    units: tuple[Unit, ...]
    absorbed: tuple[Unit, ...] = ()  # whose parameters the replay of a module around them serves instead

    def serving(self, parameter: str) -> list[Unit]:
        return [unit for unit in self.units if parameter in unit.locals.values()]

    @property
    def by_name(self) -> list[str]:
        """The parameters that are followed by name."""
        return [name for unit in self.units if unit.route == BY_NAME for name in unit.parameters]

    def enclose(
        self, model: nn.Module, body: Body, unit: Unit, parameters: list[str], why: str, mixed: bool = False
    ) -> Plan:
        """The plan in which these parameters of a unit are served by replaying the modules that contain it.

        why: for the error, if there is no such module. mixed: rows may depend on more than one example, which must not
        be followed by name.
        """
        if unit.route == BY_NAME:
            raise CoverageError(
                f"body parameter {parameters[0]!r} {body.shapes[parameters[0]]} cannot be covered: no operation was "
                "seen to take it, neither in a call of its module, which was never called, nor by name; if one does (a "
                "torch.autograd.Function of your own), put it into a module that is called in every step, else leave "
                "it out of Loop(body=...)"
            )
        units = list(self.units)
        for name, module in model.named_modules():
            if not any(child is unit.module for child in module.children()):
                continue
            moved = {parameter: _local(module, body.parameters[parameter]) for parameter in parameters}
            old = next((u for u in units if u.module is module and u.native is None), None)
            locals_ = {**(old.locals if old else {}), **{local: parameter for parameter, local in moved.items()}}
            units = [u for u in units if u is not old] + [Unit(name, module, locals_, "replay", None)]
        if unit.module is model:
            raise _uncovered(body, parameters[0], why)
        made = settled(units, body)
        if mixed and set(parameters) & set(made.by_name):
            raise _uncovered(body, parameters[0], why)
        gone = replace(unit, locals={local: name for local, name in unit.locals.items() if name in parameters})
        return replace(made, absorbed=(*self.absorbed, gone))

    def name_too(self, model: nn.Module, body: Body, parameters: Sequence[str]) -> Plan:
        """The plan in which these parameters are followed by name as well, through the whole model."""
        units = [u for u in self.units if u.route != BY_NAME]
        named = [*self.by_name, *parameters]
        units.append(Unit("", model, {name: name for name in named}, BY_NAME, None))
        return replace(settled(units, body), absorbed=self.absorbed)


def refuse_replaced(unit: Unit, body: Body, ours: Any = None) -> None:
    """Raise if a native unit's module has other parameters, or another forward than `ours`, than the plan saw.

    Its route knows its arithmetic with its own parameters.
    """
    module = unit.module
    own = {local: p for local, p in module._parameters.items() if p is not None}
    other = {local for local, name in unit.locals.items() if own.get(local) is not body.parameters[name]}
    other |= set(own) - unit.known
    patched = vars(module).get("forward", ours)
    if other or type(module).forward is not unit.forward or patched is not ours:
        what = f"another {' and '.join(sorted(other))}" if other else "another forward"
        raise CoverageError(
            f"module {unit.name!r} was called with {what} than it had when the run began (functional_call, a weight or "
            "a method that was replaced), so that its calls do not give its parameters' gradients; leave it out of "
            "Loop(body=...), or use it as it is"
        )


def settled(units: list[Unit], body: Body) -> Plan:
    """A plan in which no use of a parameter is served twice: units inside a replayed module leave its parameters to it.

    A module whose call spans several steps cannot be replayed: it cannot say which step a gradient belongs to. Its
    parameters are followed by name, wherever they are used.
    """
    holders = [u for u in units if u.route == BY_NAME or (u.native is None and body.marks_inside(u.module))]
    named = {parameter for u in holders for parameter in u.parameters}
    kept = [replace(u, locals={p: p for p in u.parameters}, route=BY_NAME) for u in holders]
    units = [u for u in units if u not in holders]
    for unit in units:
        around = [
            u for u in units if u.native is None and u.module is not unit.module and _holds(u.module, unit.module)
        ]
        taken = {parameter for u in around for parameter in u.parameters} | named
        locals_ = {local: parameter for local, parameter in unit.locals.items() if parameter not in taken}
        if locals_:
            kept.append(replace(unit, locals=locals_))
    return Plan(tuple(kept))


def _uncovered(body: Body, parameter: str, why: str) -> CoverageError:
    return CoverageError(
        f"body parameter {parameter!r} {body.shapes[parameter]} cannot be covered: {why}, and the module around it "
        "holds the whole loop; leave it out of Loop(body=...), or use it in a module of its own that is called with "
        "the batch as first axis"
    )


def _holds(module: nn.Module, part: nn.Module) -> bool:
    return any(m is part for m in module.modules())


def _local(module: nn.Module, p: nn.Parameter) -> str:
    return next(name for name, other in module.named_parameters() if other is p)


def first_plan(model: nn.Module, body: Body) -> Plan:
    """Every parameter at the modules that own it."""
    units: list[Unit] = []
    for name, module in model.named_modules():
        owned = {local: p for local, p in module.named_parameters(recurse=False)}
        names = {id(p): parameter for parameter, p in body.parameters.items()}
        chosen = {local: names[id(p)] for local, p in owned.items() if id(p) in names}
        if not chosen:
            continue
        known = native_route(module) if set(chosen) <= {"weight", "bias"} else None
        route, native = known or ("replay", None)
        units.append(Unit(name, module, chosen, route, native, type(module).forward, frozenset(owned)))
    return settled(units, body)
