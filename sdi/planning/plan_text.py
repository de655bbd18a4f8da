"""Plan: what a run will take, at several sizes, with formulas, the measured numbers in them, and what is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sdi.printable import html_table, printable
from sdi.units import bytes_text, seconds_text

UNKNOWN = "unknown"


@dataclass(frozen=True)
class PlannedSize:
    """What a run over so many training examples takes. None: it is not known, and the plan says why."""

    examples: int
    seconds: float | None  # to make and store all features, by the clock: the busiest process
    cpu_seconds: float | None  # of all processes together
    memory_bytes: int | None  # of one process at its peak
    disk_bytes: int  # shards, sidecars and manifests
    network_bytes: int  # read back to rank all training examples once for all queries
    score_seconds: float | None  # to rank them, in one process, streamed
    score_cpu_seconds: float | None
    whole_bytes: int  # of features and scores in the memory of a process that scores without streaming


@dataclass(frozen=True)
class Plan:
    """What a run will take. Prints as a table and its formulas; `to_dict` is the same as JSON values.

    >>> Plan((), {"time": "n × 2 s"}, (), True, "cpu", "cpu", 8, 1, 1, 3, 512, {}).title
    'a run of 1 checkpoint, 3 queries, by 8 processes; timed on cpu'
    """

    sizes: tuple[PlannedSize, ...]  # one for each number of training examples
    formulas: dict[str, str]  # of each amount, with n for the number of training examples
    assumptions: tuple[str, ...]  # that the formulas rest on, as sentences
    exact: bool  # whether disk_bytes is exact if what is assumed of ids and steps holds
    device: str  # that was asked for
    timed_on: str  # the device of the model when batches were timed
    hosts: int  # processes that share the work
    checkpoints: int  # of the model that features are made at
    repeats: int  # sketches, each with a store
    queries: int
    numbers: int  # kept for an example and step
    measured: dict[str, Any]  # of each side: what its batches took, in seconds

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON values."""
        return {**asdict(self), "sizes": [asdict(size) for size in self.sizes], "assumptions": list(self.assumptions)}

    @property
    def head(self) -> tuple[str, ...]:
        """The names of the table's columns."""
        return "examples", "time", "CPU time", "memory", "disk", "network", "ranking"

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """The table: a row for each size."""
        return [
            (
                f"{s.examples:,}", _or_unknown(s.seconds, seconds_text), _or_unknown(s.cpu_seconds, seconds_text),
                _or_unknown(s.memory_bytes, bytes_text), bytes_text(s.disk_bytes), bytes_text(s.network_bytes),
                _or_unknown(s.score_seconds, seconds_text),
            )
            for s in self.sizes
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = [self.title, "", *_aligned([self.head, *self.rows]), "", "for n training examples:"]
        lines += [f"  {name:<8} {text}".replace(" + ", f"\n{'+ ':>11}") for name, text in self.formulas.items()]
        lines += ["", "assumed:", *(f"  - {text}" for text in self.assumptions)]
        return "\n".join(printable(line) for text in lines for line in text.split("\n"))

    def _repr_html_(self) -> str:
        return html_table(self.title, self.head, self.rows)

    @property
    def title(self) -> str:
        """What is planned, in a line."""
        many = f"{self.checkpoints} {_plural('checkpoint', self.checkpoints)}"
        many += f", {self.repeats} sketches" if self.repeats > 1 else ""
        by = f"{self.hosts} {_plural('process', self.hosts)}"
        return f"a run of {many}, {self.queries:,} {_plural('query', self.queries)}, by {by}; timed on {self.timed_on}"


def _or_unknown(value: float | None, unit: Any) -> str:
    return UNKNOWN if value is None else str(unit(value))


def _plural(word: str, n: int) -> str:
    """
    >>> _plural("query", 2), _plural("process", 2), _plural("checkpoint", 1)
    ('queries', 'processes', 'checkpoint')
    """
    if n == 1:
        return word
    return word[:-1] + "ies" if word.endswith("y") else word + ("es" if word.endswith("s") else "s")


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  " + "  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
