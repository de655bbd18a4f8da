"""plot: trajectories of the strongest training examples on a query with their 95% bands; and one split into parts."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from sdi.arguments import at_least_one, whole
from sdi.files import write_whole
from sdi.printable import printable
from sdi.result.labelled import Labelled
from sdi.scores.standard_error import Z95


def plot_trajectories(sdi: Labelled, stderr: Labelled, path: Path, query: Any, k: int, side: str) -> None:
    """Draw `Result.plot`. query: its id, by default the first. side: whose loop steps are drawn, "query" or "train"."""
    k = whole("k", k)
    at_least_one("k", k)
    query = sdi.coords["query"][0] if query is None else query
    sdi, stderr = sdi.sel(query=query), stderr.sel(query=query)
    steps = np.array(sdi.coords["step"])
    order = np.argsort(-np.abs(sdi.values).sum(axis=1), kind="stable")[:k]
    figure = _figure(9, 6)
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
    bottom.set_xlabel(f"loop step of the {side}")
    bottom.locator_params(axis="x", integer=True)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    _write(figure, path)


def plot_parts(parts: Labelled, query: str, path: Path, train: Any) -> None:
    """See `Parts.plot`: colour is influence, red against and blue for, in rows of parameters and columns of steps."""
    train = parts.coords["train"][0] if train is None else train
    sdi = parts.sel(train=train)
    names, steps = sdi.coords["parameter"], len(sdi.coords["step"])
    figure = _figure(4 + 0.16 * steps, 1.6 + 0.22 * len(names))
    axes = figure.subplots()
    most = np.abs(sdi.values).max() or 1.0
    drawn = axes.imshow(
        sdi.values, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", extent=(0.5, steps + 0.5, len(names), 0)
    )
    axes.set_yticks(np.arange(len(names)) + 0.5, [_short(name, 40) for name in names], fontsize="small")
    axes.locator_params(axis="x", integer=True)
    axes.set_xlabel("loop step of the query")
    axes.set_title(f"train {_short(train)} on query {_short(query)}", fontsize="medium")
    figure.colorbar(drawn, label="influence on the step")
    _write(figure, path)


def _figure(width: float, height: float) -> Any:
    try:
        from matplotlib.figure import Figure  # not pyplot, which would choose a backend for the whole process
    except ImportError:
        raise ImportError("plot needs matplotlib: pip install 'sdi-influence[plot]'") from None
    return Figure(figsize=(width, height), layout="constrained")


def _write(figure: Any, path: Path) -> None:
    picture = BytesIO()
    figure.savefig(picture, dpi=150, format=path.suffix[1:] or "png")
    write_whole(path, picture.getvalue())


def _short(name: Any, most: int = 24) -> str:
    text = printable(name)
    text = f" {text}" if text.startswith("_") else text  # matplotlib hides names that begin with one
    return text if len(text) <= most else text[: most - 3] + "..."
