"""coverage: every body parameter with the route that serves it and the calls that were seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from sdi.inputs.unwrap import unwrapped_model
from sdi.loop import Loop
from sdi.printable import html_table
from sdi.sketch.sketch_map import SketchMap

from .follow.body import Body, find_body
from .follow.one_pass import Loss, run_pass
from .follow.plan import Plan, first_plan
from .follow.tracer import Tracer
from .guard.memory import Memory
from .sketching.device_sketch import sketch_route
from .sketching.sinks import Slot

HEAD = ("parameter", "shape", "route", "sketch", "calls", "outside")


class Covered(NamedTuple):
    """A row of the table: one body parameter, the route its gradient takes, and the calls of its module in one pass."""

    parameter: str
    shape: tuple[int, ...]
    route: str
    sketch: str  # its kind, and how it is computed if the library has no device version of it
    modules: tuple[str, ...]
    calls: int
    outside: int


@dataclass(frozen=True)
class Coverage:
    """One row for each body parameter, and the number of loop steps seen. Prints as a table, also in a notebook."""

    rows: tuple[Covered, ...]
    steps: int

    def __iter__(self) -> Iterator[Covered]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __str__(self) -> str:
        lines = self._lines()
        widths = [max(len(line[k]) for line in [HEAD, *lines]) for k in range(len(HEAD))]
        table = [
            "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in [HEAD, *lines]
        ]
        return "\n".join([*table, self._summary])

    def _repr_html_(self) -> str:
        return html_table(self._summary, HEAD, self._lines())

    @property
    def _summary(self) -> str:
        return f"{len(self.rows)} parameters, {self.steps} steps"

    def _lines(self) -> list[tuple[str, ...]]:
        return [(r.parameter, str(r.shape), r.route, r.sketch, str(r.calls), str(r.outside)) for r in self.rows]


def read_coverage(body: Body, plan: Plan, tracer: Tracer, sketch: SketchMap) -> Coverage:
    rows = []
    for name, shape in body.shapes.items():
        units = plan.serving(name)
        route = " + ".join(dict.fromkeys(u.route for u in units))
        modules = tuple(u.name for u in units)
        kind = sketch_route(sketch.sketches[name])
        rows.append(Covered(name, shape, route, kind, modules, tracer.calls[name], tracer.outside_calls[name]))
    return Coverage(tuple(rows), tracer.steps_seen)


class _Discard:
    """A sink that discards the gradients it is given."""

    def open(self, n: int, tau: int) -> None: ...
    def outer(self, slot: Slot, u: Tensor, v: Tensor) -> None: ...
    def rows(self, slot: Slot, index: Tensor, v: Tensor) -> None: ...
    def whole(self, slot: Slot, G: Tensor) -> None: ...


def coverage(model: nn.Module, loss: Loss, batch: Any, *, loop: Loop, sketch: SketchMap | None = None) -> Coverage:
    """Run one batch and list by which route each body parameter is covered; CoverageError names one that is not.

    model: an `nn.Module`. loss: a function of model and batch that returns one value per example.
    batch: a batch as `loss` takes it. loop: the parameters to cover, and the module whose call begins a step.
    sketch: the sketch to name in the table; by default gradients are kept whole.
    """
    model = unwrapped_model(model)
    body = find_body(model, loop)
    sketch = SketchMap.keep(body.shapes) if sketch is None else sketch
    sketch.check_shapes(body.shapes)
    sinks = dict.fromkeys(body.parameters, _Discard())
    plan = first_plan(model, body)
    tracer, plan = run_pass(model, loss, batch, loop, body, plan, lambda: sinks, Memory("hooks", None))
    return read_coverage(body, plan, tracer, sketch)
