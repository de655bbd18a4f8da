"""write_figures: the figures of a run, each as PNG, SVG and PDF."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sdi.arguments import one_of
from sdi.inputs.checkpoints import Checkpoint
from sdi.report.collect import over_query_steps
from sdi.result.figure_style import FORMATS, STYLES, styled, write_figure
from sdi.result.parts import parts
from sdi.result.result import Result
from sdi.store.store import Store

QUERIES = 8  # that figures are drawn of, unless they are named


def write_figures(
    folder: Path,
    result: Result,
    store: Store | None = None,
    checkpoints: Sequence[Checkpoint] = (),
    queries: Sequence[str] | None = None,
    style: str = "screen",
) -> list[Path]:
    """Write trajectories, a heatmap and, with a store, parameters by steps of each query; return the files.

    folder: where to write; it is made if it is missing. Files are named by the query's number: `query-1-heatmap.pdf`.
    result: with steps. store, checkpoints: those it came from. queries: their ids; by default the first 8.
    style: "screen"; or "paper", which fits one column of two.
    """
    one_of("style", style, tuple(STYLES))
    steps = over_query_steps(result)
    chosen = [str(q) for q in steps.labels["query"][:QUERIES]] if queries is None else list(queries)
    numbers = [steps.position("query", query) + 1 for query in chosen]
    written = []
    for number, query in zip(numbers, chosen, strict=True):
        drawn = {
            "trajectories": steps.plot(query=query, style=style)[0],
            "heatmap": steps.plot(query=query, k=24, kind="heatmap", style=style),
        }
        if store is not None:
            first = steps.top(1, query=query, by="absolute").rows[0].train
            drawn["parameters"] = parts(store, checkpoints, query, [first]).plot(style=style)
        folder.mkdir(parents=True, exist_ok=True)
        for what, axes in drawn.items():
            names = [folder / f"query-{number}-{what}.{ending}" for ending in FORMATS]
            with styled(style):
                write_figure(axes.figure, *names)
            written += names
    return written
