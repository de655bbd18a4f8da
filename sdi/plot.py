"""plot: trajectories of the strongest training examples on a query, with their 95% bands."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sdi.files import write_whole
from sdi.uncertainty import Z95

if TYPE_CHECKING:
    from sdi.result import Result


def plot_trajectories(result: Result, path: Path, query: Any, k: int) -> None:
    """See `Result.plot`. Without a query, the first is drawn."""
    try:
        from matplotlib.figure import Figure  # not pyplot, which would choose a backend for the whole process
    except ImportError:
        raise ImportError("plot needs matplotlib: pip install 'sdi-influence[plot]'") from None

    query = result.sdi.coords["query"][0] if query is None else query
    sdi, stderr = result.sdi.sel(query=query), result.stderr.sel(query=query)
    steps = np.array(sdi.coords["step"])
    order = np.argsort(-np.abs(sdi.values).sum(axis=1), kind="stable")[:k]
    figure = Figure(figsize=(8, 6), layout="constrained")
    top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for i in order:
        (line,) = top.plot(steps, sdi.values[i], marker="o", markersize=3, label=str(sdi.coords["train"][i]))
        band = Z95 * stderr.values[i]
        top.fill_between(steps, sdi.values[i] - band, sdi.values[i] + band, color=line.get_color(), alpha=0.15, lw=0)
    top.axhline(0, color="0.6", lw=0.8)
    top.set_ylabel("influence on the step")
    top.set_title(f"query {query}: the {len(order)} training examples that act most; bands are 95%")
    top.legend(title="train", fontsize="small")
    bottom.bar(steps, np.abs(sdi.values).sum(axis=0), color="0.5")
    bottom.set_ylabel("energy, all")
    bottom.set_xlabel("loop step")
    picture = BytesIO()
    figure.savefig(picture, dpi=150, format=path.suffix[1:] or "png")
    write_whole(path, picture.getvalue())
