"""plot: the charts of a record as one PNG, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from textwrap import fill
from typing import Any

from sdi.files import write_whole

from .chart import Chart
from .record import Record, Table
from .remarks import bars_with_failures, name_with_noise

PER_ROW = {1: 1, 2: 2, 4: 2}  # otherwise 3
MARKERS = "osD^vPX*"
SHORTEST = 8  # letters of a title's line


def require_matplotlib() -> Any:
    """matplotlib's Figure class; an error if it is not installed, so that this is known before anything is measured."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OSError("--plot needs matplotlib: pip install 'sdi-influence[plot]'") from None
    return Figure


def plot(record: Record, path: Path) -> None:
    """Draw every chart of the record."""
    picture = BytesIO()
    figure_of(record).savefig(picture, dpi=110, format="png")
    write_whole(path, picture.getvalue())


def figure_of(record: Record) -> Any:
    """The charts side by side, with titles that fit."""
    if not record.charts:
        raise ValueError(f"a record of {record.kind!r} has nothing to draw")
    columns = PER_ROW.get(len(record.charts), 3)
    rows = -(-len(record.charts) // columns)
    figure = require_matplotlib()(figsize=(5.2 * columns, 3.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, chart in zip(panels, record.charts, strict=False):
        (_lines if chart.lines else _bars)(axes, chart, record.tables)
        axes.set_title(chart.title, fontsize="medium")
        axes.set_xlabel(chart.x)
        axes.set_ylabel(chart.y)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(record.charts) :]:
        axes.remove()
    _wrap_titles(figure)
    return figure


def _wrap_titles(figure: Any) -> None:
    """Break the titles that are wider than their axes: matplotlib would let them run out of the figure."""
    figure.draw_without_rendering()  # places the axes: their widths depend on the tick labels
    for axes in figure.axes:
        text, room, letters = axes.get_title(), axes.get_window_extent().width, len(axes.get_title())
        while axes.title.get_window_extent().width > room and letters > SHORTEST:
            letters -= 1
            axes.title.set_text(fill(text, letters))


def _lines(axes: Any, chart: Chart, tables: Sequence[Table]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    tangled = any(turns_back(line.x) for line in chart.lines)
    for k, line in enumerate(chart.lines):
        style = {"marker": MARKERS[k % len(MARKERS)], "ls": "", "ms": 5} if tangled else {"marker": "o", "ms": 4}
        name = name_with_noise(line.name, chart, tables)
        if line.guide:
            axes.plot(line.x, line.y, "--", color="0.6", lw=1, label=line.name)
        else:
            axes.errorbar(line.x, line.y, yerr=line.spread or None, capsize=2, label=name, **style)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain = FuncFormatter(lambda x, _: f"{x:,.10g}")
    ticks = sorted({x for line in chart.lines for x in line.x})
    if len(ticks) <= 8 and all(b > 1.3 * a for a, b in pairwise(ticks)):
        axes.set_xticks(ticks)
    else:
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if ticks[-1] < 50 * ticks[0] else (1, 3)))
    axes.xaxis.set_major_formatter(plain)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter(plain)
    axes.yaxis.set_minor_locator(NullLocator())
    if chart.names_at_ends and not tangled:
        _name_ends(axes, chart)
    else:
        axes.legend(fontsize="small", frameon=False)


def turns_back(x: Sequence[float]) -> bool:
    """Whether a line over x would go forth and back; many such lines are a tangle, and are drawn as points.

    >>> turns_back([1, 2, 2, 4]), turns_back([3, 1]), turns_back([1, 3, 2])
    (False, False, True)
    """
    ways = {a < b for a, b in pairwise(x) if a != b}
    return len(ways) > 1


def _name_ends(axes: Any, chart: Chart, width: float = 0.22, height: float = 0.06) -> None:
    """Each line's name beside its last point, moved up as far as names would overlap."""
    left, right = axes.get_xlim()
    axes.set_xlim(left, right * (right / left) ** 0.3)
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = [(*to_axes.transform((line.x[-1], line.y[-1])), k) for k, line in enumerate(chart.lines)]
    placed: list[tuple[float, float]] = []
    for x, y, k in sorted(ends, key=lambda end: end[1]):
        for x0, y0 in placed:  # from below
            if abs(x - x0) < width and abs(y - y0) < height:
                y = y0 + height
        placed.append((x, y))
        line = chart.lines[k]
        axes.annotate(
            line.name,
            (line.x[-1], line.y[-1]),
            xytext=(x + 0.04, y),
            textcoords="axes fraction",
            color="0.4" if line.guide else f"C{k % 10}",
            fontsize="small",
            va="center",
            arrowprops={"arrowstyle": "-", "color": "0.8", "lw": 0.6, "shrinkA": 0, "shrinkB": 3},
        )


def _bars(axes: Any, chart: Chart, tables: Sequence[Table]) -> None:
    bars = bars_with_failures(chart, tables)
    lengths = [0.0 if isinstance(value, str) else value for _, value in bars]
    axes.barh([name for name, _ in bars], lengths, color="C0", height=0.6)
    for (name, value), length in zip(bars, lengths, strict=True):
        at = (max(length, 0), name)  # of a bar below zero: on the free side, away from its name
        text, color = (value, "C3") if isinstance(value, str) else (f"{value:.3g}", "black")
        axes.annotate(text, at, xytext=(4, 0), textcoords="offset points", va="center", fontsize="small", color=color)
    axes.margins(x=0.18)
    axes.invert_yaxis()
