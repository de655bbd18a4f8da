"""shrink: the smallest description that still shows a fault: parts are dropped one at a time while it remains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from .check import Outcome, check
from .description import Batches, Description
from .draw import is_valid

PLAIN = Description()


def shrink(one: Description, shows_fault: Callable[[Description], bool]) -> Description:
    """`shows_fault` must hold of the description; it holds of the answer, and of none of its smaller neighbours."""
    while True:
        for smaller in neighbours(one):
            if is_valid(smaller) and shows_fault(smaller):
                one = smaller
                break
        else:
            return one


def same_fault(fault: Outcome) -> Callable[[Description], bool]:
    """Whether a description has a fault of this kind, in the same memory mode; a raw exception of the same words."""

    def shows(one: Description) -> bool:
        try:
            found = check(one).outcomes
        except Exception:  # the oracle itself: not a model that we could say anything of
            return False
        return any(
            o.kind == fault.kind and o.memory == fault.memory and (o.kind == "wrong" or o.words == fault.words)
            for o in found
        )

    return shows


def neighbours(one: Description) -> Iterator[Description]:
    """Descriptions with one part less, or one part plainer, the largest cuts first.

    >>> next(neighbours(Description(extras=("end",)))).extras
    ()
    """
    for name in ("mixing", "when", "checkpoints", "mode", "loss", "carry", "step"):
        if getattr(one, name) != getattr(PLAIN, name):
            yield replace(one, **{name: getattr(PLAIN, name)})
    for k in range(len(one.extras)):
        yield replace(one, extras=one.extras[:k] + one.extras[k + 1 :])
    for k in range(len(one.cells)):
        yield replace(one, cells=one.cells[:k] + one.cells[k + 1 :])
    for k, (cell, style) in enumerate(one.cells):
        for plainer in (("linear", "whole"), ("linear", style), (cell, "whole")):
            if plainer != (cell, style):
                yield replace(one, cells=(*one.cells[:k], plainer, *one.cells[k + 1 :]))
    for side in ("train", "query"):
        for fewer in _fewer(getattr(one, side)):
            change: dict[str, Any] = {side: fewer}
            yield replace(one, **change)
    for name, least in (("d", 2), ("tau", 2), ("k", 2)):
        if getattr(one, name) > least:
            yield replace(one, **{name: getattr(one, name) - 1})


def _fewer(batches: Batches) -> Iterator[Batches]:
    for k, (n, length) in enumerate(batches):
        rest = batches[:k], batches[k + 1 :]
        yield (*rest[0], *rest[1])
        if n > 1:
            yield (*rest[0], (n - 1, length), *rest[1])
        if length > 1:
            yield (*rest[0], (n, length - 1), *rest[1])
