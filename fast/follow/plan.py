"""Plan: which module's calls serve which body parameter, and by which route.

Every parameter starts at the modules that own it: natively where the module's arithmetic is known, by replay where it
is not. A parameter whose module is never called itself (packed attention calls none of its parts), or whose calls carry
no batch axis, moves to the enclosing module, which is replayed whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from torch import Tensor, nn

from sdi.errors import CoverageError

from .body import Body
from .routes import Native, native_route

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Unit:
    """A module whose calls are watched, and the body parameters that these calls serve."""

    name: str
    module: nn.Module
    locals: dict[str, str]  # the parameter's name within the module -> its name in the body
    route: str
    native: Native | None

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

    def __init__(self, unit: Unit, why: str, parameters: list[str] | None = None) -> None:
        super().__init__(why)
        self.unit, self.why, self.parameters = unit, why, parameters or unit.parameters


@dataclass(frozen=True, eq=False)
class Plan:
    units: tuple[Unit, ...]
    absorbed: tuple[Unit, ...] = ()  # whose parameters the replay of a module around them serves instead

    def serving(self, parameter: str) -> list[Unit]:
        return [unit for unit in self.units if parameter in unit.locals.values()]

    def enclose(self, model: nn.Module, body: Body, unit: Unit, parameters: list[str], why: str) -> Plan:
        """The plan in which these parameters of a unit are served by replaying the modules that contain it.

        why: for the error, if the module around it is the whole model.
        """
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
        made = settled(units, body, why)
        gone = replace(unit, locals={local: name for local, name in unit.locals.items() if name in parameters})
        return replace(made, absorbed=(*self.absorbed, gone))


def settled(units: list[Unit], body: Body, why: str) -> Plan:
    """A plan in which no use of a parameter is served twice: units inside a replayed module leave its parameters to it.

    A module whose call spans several steps cannot be replayed: it cannot say which step a gradient belongs to.
    """
    kept = []
    for unit in units:
        if unit.native is None and body.marks_inside(unit.module):
            raise _uncovered(body, unit.parameters[0], why)
        around = [
            u for u in units if u.native is None and u.module is not unit.module and _holds(u.module, unit.module)
        ]
        taken = {parameter for u in around for parameter in u.parameters}
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
        units.append(Unit(name, module, chosen, route, native))
    return settled(units, body, "it belongs to no module of its own")
