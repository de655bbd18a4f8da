"""Where the time of a featurising pass goes: every parameter's sketch timed by itself, over one whole pass.

The pass is the engine's own; each sink is wrapped in a clock. Parameters that differ only in a block's number are one
row. The clocks themselves cost about a microsecond a call.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from torch import Tensor

from sdi.backends import room

from .cases import Batch, Case


@dataclass
class Clock:
    """A sink that counts the seconds of another."""

    sink: Any
    seconds: float = 0.0
    tokens: int = 0

    def open(self, n: int, tau: int) -> None:
        self.sink.open(n, tau)

    def outer(self, slot: int | None, u: Tensor, v: Tensor) -> None:
        self.tokens = u.shape[1]
        self._timed("outer", slot, u, v)

    def rows(self, slot: int | None, index: Tensor, v: Tensor) -> None:
        self._timed("rows", slot, index, v)

    def whole(self, slot: int | None, G: Tensor) -> None:
        self._timed("whole", slot, G)

    def _timed(self, form: str, *arguments: Any) -> None:
        began = perf_counter()
        getattr(self.sink, form)(*arguments)
        self.seconds += perf_counter() - began


@dataclass(frozen=True)
class Layer:
    """Parameters of one name, up to a block's number."""

    name: str
    count: int
    shape: tuple[int, ...]
    route: str  # from a call to its gradient
    sketch: str  # from the gradient to its sketch
    calls: int  # of all of them, in one pass
    seconds: float


class Profile:
    """A pass with clocks, to be run again and again; the fastest pass counts."""

    def __init__(self, case: Case, model: Any) -> None:
        fast, self.case = room("fast"), case
        self.make = fast.Featurizer(
            model, fast.token_cross_entropy, loop=case.config.loop(), sketch=case.sketch(), memory="hooks", audit="off"
        )
        self.best = float("inf")
        self.layers: list[Layer] = []

    def run(self, batch: Batch) -> float:
        """Seconds spent in sketches."""
        sinks, make = room("fast.sketching.sinks"), self.make
        if make.coverage is None:
            make(batch)
        acc = sinks.Accumulator(make.sketch, True, make.dtype, make.work.device)
        clocks = {name: Clock(sink) for name, sink in sinks.make_sinks(acc, make.work, make.tables).items()}
        _, make.plan = room("fast.follow.one_pass").run_pass(
            make.model, make.loss, batch, make.loop, make.body, make.plan, lambda: clocks, make.memory
        )
        seconds = sum(clock.seconds for clock in clocks.values())
        if seconds < self.best:
            self.best = seconds
            self.layers = self._layers(clocks, make.coverage)
        return seconds

    def _layers(self, clocks: dict[str, Clock], coverage: Any) -> list[Layer]:
        groups: dict[str, list[Any]] = defaultdict(list)
        for row in coverage:
            groups[re.sub(r"\.\d+\.", ".*.", row.parameter)].append(row)
        layers = []
        for name, rows in groups.items():
            table = self.make.tables.get(rows[0].parameter)
            clock = clocks[rows[0].parameter]
            route = getattr(table, "route", None)
            how = "kept" if table is None else route(clock.tokens) if route and clock.tokens else "scatter"
            spent = sum(clocks[row.parameter].seconds for row in rows)
            layers.append(Layer(name, len(rows), rows[0].shape, rows[0].route, how, sum(r.calls for r in rows), spent))
        return sorted(layers, key=lambda layer: -layer.seconds)
