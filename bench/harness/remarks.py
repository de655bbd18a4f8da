"""Remarks: what a picture says where numbers alone would mislead. Read from the record's tables, which say it already,
so that a record saved long ago is drawn with them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from .chart import Chart
from .record import Table

NO_BAR = ("fails", "wrong")  # how the cell begins that says why there is no figure
NOISE = "too noisy"


def bars_with_failures(chart: Chart, tables: Sequence[Table]) -> list[tuple[str, float | str]]:
    """The bars, and at its place among them a word for each row of their table that has none because it failed.

    >>> table = Table("gpt: scores", ("by", "off by"), [["a", "0.1"], ["b", "fails: no memory"], ["c", "0.2"]])
    >>> bars_with_failures(Chart("gpt: time", "", "", bars=[("a", 1.0), ("c", 2.0)]), [table])
    [('a', 1.0), ('b', 'fails'), ('c', 2.0)]
    """
    measured = dict(chart.bars)
    for table in tables:
        if _subject(table.title) != _subject(chart.title) or not measured.keys() <= {row[0] for row in table.rows}:
            continue
        words = {row[0]: word for row in table.rows for word in NO_BAR if any(c.startswith(word) for c in row[1:])}
        return [
            (row[0], measured.get(row[0], words.get(row[0], ""))) for row in table.rows if row[0] in words | measured
        ]
    return list(chart.bars)


def name_with_noise(name: str, chart: Chart, tables: Sequence[Table]) -> str:
    """The name of a line; if the fit of it says nothing, with its first and last figure, and that.

    >>> row = ["n", "memory", "-0.7", "too noisy", "6.3 MB", "1.1 MB"]
    >>> name_with_noise("memory", Chart("Growth with n", "n", ""), [Table("Exponents", (), [row])])
    'memory, 6.3 MB to 1.1 MB:\\ntoo noisy to fit'
    """
    for row in (row for table in tables for row in table.rows):
        if list(row[:2]) == [chart.x, name] and NOISE in row:
            return f"{name}, {row[-2]} to {row[-1]}:\n{NOISE} to fit"
    return name


def _subject(title: str) -> str:
    return title.partition(":")[0]
