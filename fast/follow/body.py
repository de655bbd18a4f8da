"""The body of a looped model: its parameters by name, the modules that own them, and the modules that mark steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from sdi.errors import CoverageError, nearest_or_first
from sdi.inputs.frozen import frozen_among
from sdi.loop import Loop, check_loop


@dataclass(frozen=True)
class Body:
    """A Loop resolved for one model: body parameters by name and their modules. A shared parameter counts once."""

    parameters: dict[str, nn.Parameter]
    steps: tuple[nn.Module, ...]
    end: nn.Module | None
    calls: str = "one"  # of the model, within one loss
    cycle: nn.Module | None = None
    inner: int | None = None

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: tuple(p.shape) for name, p in self.parameters.items()}

    def marks_inside(self, module: nn.Module) -> bool:
        """Whether a step begins or ends within one call of the module."""
        return any(m is self.end or any(m is step for step in self.steps) for m in module.modules() if m is not module)


def find_body(model: nn.Module, loop: Loop) -> Body:
    """The Body of a model: the names and modules of a Loop looked up; CoverageError for what the model lacks."""
    check_loop(loop)
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a torch.nn.Module, got {model!r}")
    names = dict(model.named_modules(remove_duplicate=False))
    every = dict(model.named_parameters(remove_duplicate=False))
    if not every:
        raise CoverageError("the model has no parameters")
    body = [entry if isinstance(entry, str) else _name_of(entry, names, "body") for entry in loop.body]
    chosen = list(every) if "" in body else Loop(body=body, step=loop.step).select(every)
    canonical: dict[int, str] = {}
    for name, p in every.items():
        canonical.setdefault(id(p), name)
    parameters = {canonical[id(every[name])]: every[name] for name in chosen}
    for name in frozen_among(parameters, body):
        del parameters[name]
    _refuse_odd_dtypes(parameters.items())
    _refuse_compiled_calls(names, chosen)
    end = None if loop.end is None else _module(loop.end, names, "end")
    steps = tuple(dict.fromkeys(_module(entry, names, "step") for entry in loop.steps))
    cycle = None if loop.cycle is None else _module(loop.cycle, names, "cycle")
    return Body(parameters, steps, end, loop.calls, cycle, loop.inner)


def _module(entry: Any, names: dict[str, nn.Module], role: str) -> nn.Module:
    if isinstance(entry, str):
        if entry not in names:
            raise ValueError(f"{role} module {entry!r} is not in the model{nearest_or_first(entry, _outermost(names))}")
        return names[entry]
    return names[_name_of(entry, names, role)]


def _outermost(names: dict[str, nn.Module]) -> list[str]:
    """The names of the modules, those of few parts first."""
    return sorted((name for name in names if name), key=lambda name: name.count("."))


def _name_of(module: Any, names: dict[str, nn.Module], role: str) -> str:
    for name, other in names.items():
        if other is module:
            return name
    raise ValueError(
        f"{role} module {type(module).__name__} is not in the model; give one of its own modules, or a name"
    )


def _refuse_odd_dtypes(parameters: Iterable[tuple[str, nn.Parameter]]) -> None:
    for name, p in parameters:
        if not p.dtype.is_floating_point:
            raise CoverageError(
                f"body parameter {name!r} must be of a real floating type, got {p.dtype}; "
                "leave it out of Loop(body=...)"
            )


def _refuse_compiled_calls(names: dict[str, nn.Module], body: Iterable[str]) -> None:
    for name, module in names.items():
        within = name + "." if name else ""
        if isinstance(module, torch.jit.ScriptModule) and any(p.startswith(within) for p in body):
            raise CoverageError(
                f"module {name or 'model'!r} is TorchScript, whose calls cannot be followed; give the Python module "
                "that it was made from"
            )
