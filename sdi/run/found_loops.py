"""FoundLoops: what `find_loops` proposes, as data and as text to paste."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sdi.loop import Loop


@dataclass(frozen=True)
class FoundLoop:
    """A proposal."""

    loop: Loop  # what `attribute` takes
    tau: int  # steps, in the pass that was looked at
    numbers: int  # in the body's parameters
    calls: dict[str, int]  # of each module of the body
    remarks: tuple[str, ...] = ()  # what to know of it: calls outside the loop, steps that differ, what is left out

    @property
    def line(self) -> str:
        """The line of Python to paste."""
        given = {"body": list(self.loop.body), "step": self.loop.step, "end": self.loop.end}
        parts = [f"{name}={quoted(value)}" for name, value in given.items() if value is not None]
        parts += [] if self.loop.calls == "one" else [f"calls={quoted(self.loop.calls)}"]
        parts += [] if self.loop.cycle is None else [f"cycle={quoted(self.loop.cycle)}"]
        parts += [] if self.loop.inner is None else [f"inner={self.loop.inner}"]
        return f"sdi.Loop({', '.join(parts)})"


@dataclass(frozen=True)
class FoundLoops:
    """What `find_loops` returns: proposals, best first. Prints as text; iterates over the proposals."""

    loops: tuple[FoundLoop, ...]  # the proposals
    picture: str  # the calls in their order, repetitions folded
    notes: tuple[str, ...] = ()  # on what was not proposed, and why

    def __iter__(self) -> Iterator[FoundLoop]:
        return iter(self.loops)

    def __len__(self) -> int:
        return len(self.loops)

    def __getitem__(self, k: int) -> FoundLoop:
        return self.loops[k]

    def __str__(self) -> str:
        lines = [f"calls: {self.picture}"]
        for k, found in enumerate(self.loops, 1):
            calls = ", ".join(f"{name} × {times}" for name, times in found.calls.items())
            lines += ["", f"{k}. {found.tau} steps, {found.numbers:,} numbers in the body: {calls}", f"   {found.line}"]
            lines += [f"   {remark}" for remark in found.remarks]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])


def quoted(value: Any) -> str:
    """A name or a list of names as Python writes them, in double quotes."""
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(quoted, value))}]"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'
