"""Delivery: what becomes of the gradient at a call's output: whose its rows are, and the route to the sinks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from sdi.errors import CoverageError

from ..rows.owners import (
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
from ..rows.row_proof import RowProof
from ..rows.row_rules import SHARED, Block
from ..sketching.sinks import Sink, Slot
from .body import Body
from .call import Call
from .plan import NeedsEnclosing, Unit, batch_axis
from .replay import OtherOutput, replay
from .routes import NoBatchAxis

NO_ROWS = "its call does not carry one row for each of the {} examples"


class Delivery:
    """Hands gradients to sinks, example by example, once n losses are known."""

    def __init__(self, body: Body, sinks: Mapping[str, Sink]) -> None:
        self.body, self.sinks = body, sinks
        self.n = 0
        self.moved: int | None = None  # an example whose rows stand elsewhere than in order
        self.delivered: Counter[str] = Counter()  # per parameter, gradients that arrived
        self.dtypes: set[torch.dtype] = set()  # of the gradients that arrived
        self.owners = Owners()
        self.rows = RowProof(0)
        self.given: dict[Any, list[Tensor]] = {}  # what calls returned that will be run again and left values, too
        self._busy = False  # a replay is running: its calls are ours

    def deliver_native(
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
            if self.owners.weighing:
                self.owners.record(key, rows)
            elif not self.tells_rows(lead, delta.numel(), block):
                owners = self._weighed(unit, key, rows, block)
            elif lead[0] != self.n or self.n * block != delta.numel():
                owners = rows_by_block(len(rows), rows[0].numel(), block, self.n)
        if self.owners.weighing:
            return
        if owners is not None:
            a, delta = (by_example(flat_rows(x, lead), owners, self.n) for x in (a, delta))
        self._serve(unit, delta, partial(unit.native, unit.module, a, delta, unit.pick(self.sinks), slot, self.n))

    def tells_rows(self, lead: tuple[int, ...], numel: int, block: Block) -> bool:
        """Whether a block tells whose each row is: none is of several examples."""
        if self.n <= 1 or not numel:
            return True
        rows = lead[0] if lead[1:] == (1,) else prod(lead)
        return block > 0 and block % (numel // rows) == 0

    def shows_axis(self, shape: tuple[int, ...], axis: int, block: Block) -> bool:
        """Whether a block shows that examples stand along an axis, in order."""
        return self.n <= 1 or not prod(shape) or self.rows.shows(block, shape, axis)

    def refuse_hooks(self, call: Any, module: nn.Module) -> None:
        """Refuse a hook of the user on what a call has returned: it must see the gradient of a value left beside it."""
        if any(y._backward_hooks for y in self.given.get(call, ())):
            raise CoverageError(
                f"a {type(module).__name__} leaves a value on itself, and a hook stands on what it returns: when it is "
                "run again, the hook would not see the value's gradient; return the value as well, or try "
                "memory='hooks'"
            )

    def _weighed(self, unit: Unit, key: Any, rows: Tensor, block: Block) -> Tensor:
        """Whose rows these are, by values."""
        try:
            owners = self.owners.of(key, rows)
        except MixedRows:
            raise NeedsEnclosing(unit, NO_ROWS.format(self.n), mixed=block != SHARED) from None
        if self.moved is None:
            self.moved = displaced(owners, self.n)
        return owners

    def deliver_replayed(
        self, unit: Unit, call: Call, k: int, slot: Slot, draws: bool, key: Any, delta: Tensor, block: Block
    ) -> None:
        self.refuse_hooks(call, unit.module)
        lead, axis = unit.lead(delta, k), batch_axis(unit.module, k)
        if self.owners.weighing:
            if delta.dim() > axis and delta.numel():
                self.owners.record((key, k), rows_of(delta.movedim(axis, 0), lead))
            return
        owners = None
        if not self.shows_axis(tuple(delta.shape), axis, block):
            if delta.dim() <= axis:
                raise NeedsEnclosing(unit, NO_ROWS.format(self.n), mixed=block != SHARED)
            found = self._weighed(unit, (key, k), rows_of(delta.movedim(axis, 0), lead), block)
            if not axis:
                owners = found
            elif len(found) != self.n or not in_order(found, self.n):  # replay tells apart along the first axis only
                raise NeedsEnclosing(unit, NO_ROWS.format(self.n))
        elif self.n > 1 and delta.numel() and delta.shape[axis] != self.n:
            owners = regular_owners(len(rows_of(delta, lead)), self.n)
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

    def deliver_whole(self, name: str, slot: Slot, G: Tensor) -> None:
        """The gradients of every example, (n, ...), of a parameter that is followed by name."""
        self.dtypes.add(G.dtype)
        self.delivered[name] += 1
        with torch.no_grad():
            self.sinks[name].whole(slot, G)

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
