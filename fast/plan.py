"""Plan: which module's calls serve which body parameter, and by which route.

Every parameter starts at the modules that own it: natively where the module's arithmetic is known, by replay where it
is not. A parameter whose module is never called itself (packed attention calls none of its parts), or whose calls carry
no batch axis, moves to the enclosing module, which is replayed whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from torch import nn

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

    def pick(self, of: Mapping[str, T]) -> dict[str, T]:
        return {local: of[name] for local, name in self.locals.items()}


@dataclass(frozen=True, eq=False)
class Plan:
    units: tuple[Unit, ...]

    def serving(self, parameter: str) -> list[Unit]:
        return [unit for unit in self.units if parameter in unit.locals.values()]

    def enclose(self, model: nn.Module, body: Body, unit: Unit, parameters: list[str], why: str) -> Plan:
        """The plan with these parameters of a unit moved to the module around it."""
        outer_name, _, part = unit.name.rpartition(".")
        moved = {f"{part}.{local}": name for local, name in unit.locals.items() if name in parameters}
        kept = {local: name for local, name in unit.locals.items() if name not in parameters}
        units: list[Unit] = []
        for u in self.units:
            if u is not unit:
                units.append(u)
            elif kept:
                units.append(Unit(u.name, u.module, kept, u.route, u.native))
        for i, u in enumerate(units):
            if u.name == outer_name and u.native is None:
                units[i] = Unit(u.name, u.module, {**u.locals, **moved}, u.route, None)
                break
        else:
            units.append(Unit(outer_name, model.get_submodule(outer_name), moved, "replay", None))
        return Plan(tuple(units)).refusing_loops(body, why)

    def refusing_loops(self, body: Body, why: str) -> Plan:
        """A module whose call spans several steps cannot say which step a gradient belongs to."""
        for unit in self.units:
            if unit.native is None and (not unit.name or _contains(unit.module, body.step)):
                name = unit.parameters[0]
                raise CoverageError(
                    f"body parameter {name!r} {body.shapes[name]} cannot be covered: {why}, and the module around it "
                    "holds the whole loop; leave it out of Loop(body=...), or use it in a module of its own that is "
                    "called with the batch as first axis"
                )
        return self


def _contains(module: nn.Module, part: nn.Module) -> bool:
    return any(m is part for m in module.modules() if m is not module)


def first_plan(model: nn.Module, body: Body) -> Plan:
    """Every parameter at the modules that own it."""
    locals_of: dict[str, dict[str, str]] = {}
    for parameter, owners in body.owners.items():
        for module_name, local in owners:
            locals_of.setdefault(module_name, {})[local] = parameter
    units: list[Unit] = []
    seen: dict[int, str] = {}
    for name, chosen in locals_of.items():
        module = model.get_submodule(name)
        if id(module) in seen:  # one module under two names
            continue
        seen[id(module)] = name
        known = native_route(module)
        native = None if known is None or not set(chosen) <= {"weight", "bias"} else known
        units.append(Unit(name, module, chosen, native[0] if native else "replay", native[1] if native else None))
    return Plan(tuple(units)).refusing_loops(body, "it belongs to no module of its own")
