"""Styles of figures: sizes, fonts and colours; for a screen, or for one column of a two-column paper.

Colours are Okabe and Ito's, which colour-blind readers tell apart; lines also differ in dashes. Scores are drawn from
orange (below zero) over near white to blue, by their signed square root, so that one large cell hides no other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sdi.arguments import one_of
from sdi.files import write_whole
from sdi.printable import printable_id

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
DASHES = ("-", "--", "-.", ":")
BELOW, MIDDLE, ABOVE = "#b35806", "#f7f7f7", "#08519c"
FORMATS = ("png", "svg", "pdf")


class Style(NamedTuple):
    width: float  # of a figure, in inches
    columns: int  # of small multiples
    height: float  # of a row of them
    size: float  # of the font, in points
    line: float  # widths of lines
    cell: float  # the height of a row of a heatmap
    name: int  # characters of an id that are shown


STYLES = {
    "screen": Style(9.0, 3, 1.9, 10, 1.5, 0.22, 24),
    "paper": Style(3.33, 2, 0.95, 7, 0.8, 0.12, 18),
}


@contextmanager
def styled(style: str) -> Iterator[Style]:
    """matplotlib's settings for a style, within a block; those of the user come back after it."""
    one_of("style", style, tuple(STYLES))
    try:
        from matplotlib import rc_context
    except ImportError:
        raise ImportError("plot needs matplotlib: pip install 'sdi-influence[plot]'") from None
    found = STYLES[style]
    settings: Any = {
        "font.size": found.size,
        "axes.titlesize": found.size,
        "axes.labelsize": found.size,
        "xtick.labelsize": found.size - 1,
        "ytick.labelsize": found.size - 1,
        "lines.linewidth": found.line,
        "axes.linewidth": min(0.8, found.line),
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.fonttype": "none",  # text stays text
        "svg.hashsalt": "sdi",  # the same figure gives the same file
        "pdf.fonttype": 42,  # fonts that journals take
    }
    with rc_context(settings):
        yield found


def new_figure(width: float, height: float) -> Any:
    """An empty figure that belongs to no window."""
    from matplotlib.figure import Figure  # not pyplot, which would choose a backend for the whole process

    return Figure(figsize=(width, height), layout="constrained")


def write_figure(figure: Any, *paths: Path) -> None:
    """Write a figure, within `styled`, to each path by its ending (PNG without one), whole or not at all."""
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}  # which would differ at every writing
    for place, path in enumerate(paths):
        kind, picture = path.suffix[1:].lower() or "png", BytesIO()
        if place:
            figure.set_layout_engine("none")  # what was laid out once stays, in every format
        figure.savefig(picture, dpi=200, format=kind, metadata=dates.get(kind))
        write_whole(path, picture.getvalue())


def label(name: Any, most: int = 24) -> str:
    """An id as it can stand in a figure: without control characters, cut, and free of matplotlib's own signs."""
    text = printable_id(name)
    text = text if len(text) <= most else text[: most - 1] + "…"
    text = f" {text}" if text.startswith("_") else text  # matplotlib hides names that begin with one
    return text.replace("$", r"\$")  # which would begin a formula


def score_colours(values: np.ndarray) -> dict[str, Any]:
    """The colour map and scale of scores, as `imshow` and `pcolormesh` take them."""
    from matplotlib.colors import FuncNorm, LinearSegmentedColormap

    most = float(np.abs(values).max(initial=0)) or 1.0
    functions = (lambda x: np.sign(x) * np.sqrt(np.abs(x)), lambda y: np.sign(y) * np.square(y))
    colours = LinearSegmentedColormap.from_list("sdi", [BELOW, MIDDLE, ABOVE])
    return {"cmap": colours, "norm": FuncNorm(functions, vmin=-most, vmax=most)}
