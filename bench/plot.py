"""plot: the charts of a record as one PNG, side by side."""

from __future__ import annotations

from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

from sdi.files import write_whole

from .chart import Chart
from .record import Record

PER_ROW = {1: 1, 2: 2, 4: 2}  # otherwise 3


def require_matplotlib() -> Any:
    """Its Figure; said before anything is measured, not after."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise OSError("--plot needs matplotlib: pip install 'sdi-influence[plot]'") from None
    return Figure


def plot(record: Record, path: Path) -> None:
    """Draw every chart of the record."""
    if not record.charts:
        raise ValueError(f"a record of {record.kind!r} has nothing to draw")
    columns = PER_ROW.get(len(record.charts), 3)
    rows = -(-len(record.charts) // columns)
    figure = require_matplotlib()(figsize=(5.2 * columns, 3.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, chart in zip(panels, record.charts, strict=False):
        (_lines if chart.lines else _bars)(axes, chart)
        axes.set_title(chart.title, fontsize="medium")
        axes.set_xlabel(chart.x)
        axes.set_ylabel(chart.y)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[len(record.charts) :]:
        axes.remove()
    picture = BytesIO()
    figure.savefig(picture, dpi=110, format="png")
    write_whole(path, picture.getvalue())


def _lines(axes: Any, chart: Chart) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for line in chart.lines:
        if line.guide:
            axes.plot(line.x, line.y, "--", color="0.6", lw=1, label=line.name)
        else:
            axes.errorbar(line.x, line.y, yerr=line.spread or None, marker="o", ms=4, capsize=2, label=line.name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    plain = FuncFormatter(lambda x, _: f"{x:,g}")
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
    if chart.names_at_ends:
        _name_ends(axes, chart)
    else:
        axes.legend(fontsize="small", frameon=False)


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


def _bars(axes: Any, chart: Chart) -> None:
    names, values = [name for name, _ in chart.bars], [value for _, value in chart.bars]
    found = axes.barh(names, values, color="C0", height=0.6)
    axes.bar_label(found, [f" {value:.3g}" for value in values], fontsize="small")
    axes.margins(x=0.15)
    axes.invert_yaxis()
