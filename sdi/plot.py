"""plot: trajectories of the strongest training examples on a query, with their 95% bands."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdi.arguments import at_least_one
from sdi.files import write_whole
from sdi.uncertainty import Z95

if TYPE_CHECKING:
    from sdi.result import Result


def plot_trajectories(result: Result, path: Path, query: Any, k: int) -> None:
    """See `Result.plot`. Without a query, the first is drawn."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which would choose a backend for the whole process
        from matplotlib.ticker import MaxNLocator
    except ImportError:
        raise ImportError("plot needs matplotlib: pip install 'sdi-influence[plot]'") from None

    at_least_one("k", k)
    query = result.sdi.coords["query"][0] if query is None else query
    sdi, stderr = result.sdi.sel(query=query), result.stderr.sel(query=query)
    steps = np.array(sdi.coords["step"])
    order = np.argsort(-np.abs(sdi.values).sum(axis=1), kind="stable")[:k]
    figure = Figure(figsize=(9, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for i in order:
        (line,) = top.plot(steps, sdi.values[i], marker="o", markersize=3, label=_short(sdi.coords["train"][i]))
        band = Z95 * stderr.values[i]
        top.fill_between(steps, sdi.values[i] - band, sdi.values[i] + band, color=line.get_color(), alpha=0.15, lw=0)
    top.axhline(0, color="0.6", lw=0.8)
    top.set_ylabel("influence on the step")
    bands = ", with 95% bands" if stderr.values.any() else ""
    top.set_title(f"query {_short(query)}: the {len(order)} training examples that act most{bands}")
    figure.legend(title="train", fontsize="small", frameon=False, loc="outside right upper")
    bottom.bar(steps, np.abs(sdi.values).sum(axis=0), color="0.6")
    bottom.set_ylabel("energy of all")
    bottom.set_xlabel(f"loop step of the {'query' if result.mode == 'query' else 'training example'}")
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    picture = BytesIO()
    figure.savefig(picture, dpi=150, format=path.suffix[1:] or "png")
    write_whole(path, picture.getvalue())


def _short(name: Any, most: int = 24) -> str:
    text = f" {name}" if str(name).startswith("_") else str(name)  # matplotlib hides names that begin with one
    return text if len(text) <= most else text[: most - 3] + "..."
