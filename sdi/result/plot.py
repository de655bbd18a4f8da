"""plot: trajectories of the strongest training examples on a query with their 95% bands; and one split into parts."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.arguments import at_least_one, whole
from sdi.files import write_whole
from sdi.printable import printable
from sdi.scores.standard_error import Z95

Array = np.ndarray


def plot_trajectories(
    sdi: Float[Array, "n tau"],
    stderr: Float[Array, "n tau"],
    train: Sequence[Any],
    query: Any,
    path: Path,
    k: int,
    side: str,
) -> None:
    """Draw `Result.plot`. train, query: ids. side: whose loop steps are drawn, in words."""
    k = whole("k", k)
    at_least_one("k", k)
    steps = np.arange(1, sdi.shape[1] + 1)
    order = np.argsort(-np.abs(sdi).sum(axis=1), kind="stable")[:k]
    figure = _figure(9, 6)
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for i in order:
        (line,) = top.plot(steps, sdi[i], marker="o", markersize=3, label=_short(train[i]))
        band = Z95 * stderr[i]
        top.fill_between(steps, sdi[i] - band, sdi[i] + band, color=line.get_color(), alpha=0.15, lw=0)
    top.axhline(0, color="0.6", lw=0.8)
    top.set_ylabel("influence on the step")
    bands = ", with 95% bands" if stderr.any() else ""
    top.set_title(f"query {_short(query)}: the {len(order)} training examples that act most{bands}")
    figure.legend(title="train", fontsize="small", frameon=False, loc="outside right upper")
    bottom.bar(steps, np.abs(sdi).sum(axis=0), color="0.6")
    bottom.set_ylabel("energy of all")
    bottom.set_xlabel(f"loop step of the {side}")
    bottom.locator_params(axis="x", integer=True)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    _write(figure, path)


def plot_parts(sdi: Float[Array, "P tau"], names: Sequence[str], train: str, query: str, path: Path) -> None:
    """See `Parts.plot`: colour is influence, red against and blue for, in rows of parameters and columns of steps."""
    steps = sdi.shape[1]
    figure = _figure(4 + 0.16 * steps, 1.6 + 0.22 * len(names))
    axes = figure.subplots()
    most = np.abs(sdi).max() or 1.0
    drawn = axes.imshow(
        sdi, cmap="RdBu", vmin=-most, vmax=most, aspect="auto", extent=(0.5, steps + 0.5, len(names), 0)
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
