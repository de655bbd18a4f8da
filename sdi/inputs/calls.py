"""Calls: what one forward pass called and used, as `sdi.find_loops` reads it; no backend's types in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass
class Call:
    """One call of a module, with the calls within it, in order. The loss itself is the call that holds all others."""

    name: str  # of the module in the model; "" is the model itself
    inner: list[Call] = field(default_factory=list)

    def walk(self) -> Iterator[Call]:
        """All calls within this one, each before those within it."""
        for call in self.inner:
            yield call
            yield from call.walk()


@dataclass(frozen=True)
class Calls:
    """One evaluation of a loss.

    root: the loss, with everything that it called.
    sizes: how many numbers the parameters of each module are, those of its inner modules among them, by its name.
    same: for each module with parameters, all modules that have the very same ones, itself among them, by its name.
    own: the parameters that a module holds itself, by their names, and how many numbers they are.
    uses: how often each parameter was used, by the name of the module in whose call it was ("" is the model).
    """

    root: Call
    sizes: Mapping[str, int]
    same: Mapping[str, tuple[str, ...]]
    own: Mapping[str, int]
    uses: Mapping[str, Mapping[str, int]]
