"""What the terminal shows: rankings, trajectories and tables that fit 80 columns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from sdi.printable import printable, spark_signs
from sdi.result.ranking import Top, error_text
from sdi.result.result import Result
from sdi.scores.standard_error import Z95

GROWING = "▏▎▍▌▋▊▉█"
HELPS, HARMS = "green", "red"
TIED = "~ this row and the next, shown or not, might change places: the difference is within noise"


def sign_style(x: float) -> str:
    return HELPS if x > 0 else HARMS if x < 0 else "dim"


def spark(values: Sequence[float]) -> Text:
    """A trajectory as one character per step: its height is |value|, its colour the sign; a dot is exactly zero.

    >>> str(spark([1.0, -0.5, 0.0]))
    '█▄·'
    """
    return Text.assemble(*((sign, sign_style(v)) for sign, v in spark_signs(values)))


def bar(value: float, low: float, high: float, width: int) -> Text:
    """A horizontal bar from the axis at zero to the value, drawn on the range from low to high.

    >>> str(bar(0.5, 0.0, 1.0, 8)), str(bar(-1.0, -1.0, 1.0, 8))
    ('│████    ', '████│    ')
    """
    low, high = min(low, 0.0), max(high, 0.0)
    unit = width / (high - low) if high > low else 0.0
    left, right = round(-low * unit), width - round(-low * unit)
    if value < 0:
        halves = max(1, min(2 * left, round(-value * unit * 2)))
        drawn, rest = ("▐" if halves % 2 else "") + "█" * (halves // 2), " " * right
        return Text.assemble((drawn.rjust(left), HARMS), "│", rest)
    eighths = min(8 * right, round(value * unit * 8)) if value > 0 else 0
    drawn = "█" * (eighths // 8) + (GROWING[eighths % 8 - 1] if eighths % 8 else "")
    drawn = drawn or (GROWING[0] if value > 0 else "")
    return Text.assemble(" " * left, "│", (drawn.ljust(right), HELPS))


def trajectory(values: Sequence[float], errors: Sequence[float], width: int = 36) -> Table:
    """One line per step: a bar, the score and its 95% error."""
    table = Table.grid(padding=(0, 1))
    low, high = min(0.0, *values), max(0.0, *values)
    for t, (v, e) in enumerate(zip(values, errors, strict=True), 1):
        number = Text(number_text(v), sign_style(v)) if v or e else Text("0", "dim")
        error = f"± {Z95 * e:.2g}" if e else "exactly" if v == 0 else ""
        table.add_row(f"   {t:>3}", bar(v, low, high, width), Text.assemble(number), Text(error, "dim"))
    return table


def top_table(top: Top, result: Result | None = None) -> Group:
    """A ranking. With a result that has steps, each row also shows its trajectory."""
    steps = result is not None and result.mode in ("query", "train")
    title = Text.assemble("query ", (printable(top.query), "bold"), f", {top.steps}, by {top.by}")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", justify="right")
    table.add_column(top.what, overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("± 95%", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("late", justify="right", no_wrap=True)
    if steps:
        table.add_column("step 1 2 3 …", no_wrap=True, overflow="ellipsis")
    for row in top:
        late = "" if math.isnan(row.late) else f"{row.late:.0%}"
        score = Text(number_text(row.score), sign_style(row.score))
        error, tie = error_text(row.stderr), "~" if row.tied else ""
        cells: list[str | Text] = [str(row.rank), Text(printable(row.train)), score, error, tie, late]
        drawn = [spark(steps_of(result, row.train, top.query))] if steps and result else []
        table.add_row(*cells, *drawn)
    if not len(top):
        return Group(
            title, Text("  no training example has half of its influence in the later half of the loop", "dim")
        )
    tied = any(row.tied for row in top)
    return Group(title, table, *([Text(TIED, "dim")] if tied else []))


def steps_of(result: Result, train: str, query: str) -> list[float]:
    """The influence of a training example on a query, step by step."""
    row, column = result.position("train", train), result.position("query", query)
    steps: list[float] = result.sdi_values[row, column].tolist()
    return steps


def plain_table(head: Sequence[str], rows: Iterable[Sequence[object]], right: Sequence[str] = ()) -> Table:
    """A table of texts; the columns named in `right` hold numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in head:
        table.add_column(name, justify="right" if name in right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    return table


def number_text(x: float) -> str:
    """A number with its sign and four significant digits.

    >>> number_text(-0.0123449), number_text(1234567.0)
    ('-0.01234', '+1.235e+06')
    """
    return f"{x:+.4g}"
