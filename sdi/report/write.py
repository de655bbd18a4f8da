"""write_report: a result as one HTML file that needs no network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sdi.errors import StoreError
from sdi.files import expand, write_whole
from sdi.inputs.checkpoints import Checkpoint
from sdi.printable import printable
from sdi.report.collect import collect
from sdi.report.examples import Show, show_examples
from sdi.report.page import make_page
from sdi.result.result import Result
from sdi.store.store import Store

MOST_BYTES = 5_000_000


def write_report(
    path: str | Path,
    result: Result,
    *,
    store: Store | None = None,
    checkpoints: Sequence[Checkpoint] = (),
    queries: Sequence[str] | None = None,
    groups: Mapping[str, Any] | Callable[[str], Any] | None = None,
    show: Show | None = None,
    train: Iterable[Any] | None = None,
    query: Iterable[Any] | None = None,
    title: str = "sdi report",
) -> Path:
    """Write one HTML file that shows a result: trajectories, heatmaps, examples, a table. Needs the extra [report].

    path: the file, which opens in any browser from 2023 on, without network, and has less than 5 MB.
    result: of a mode with steps: "query", "train" or "matrix".
    store: the store that the result came from; with it, influence is also split by parameter.
    checkpoints: those of the store to sum over, from `find_checkpoints`; with `store`.
    queries: ids of the queries to show; by default the first 64.
    groups: the name of every training example's group, by its id, or a function that gives it.
    show: how an example is shown: a function of one example (its row of a batch, with its "id") that returns a text; an
        image (bytes of a PNG, JPEG, GIF or WebP file, or an array of uint8); tokens, a list of texts or of pairs of a
        text and its value; a board, a list of lists of cells; or None. By default ids alone are shown.
    train, query: iterables of batches that hold the examples, for `show`.
    title: the heading.

    Returns the path. Text from ids and examples is shown as text: it cannot run as HTML or script.
    """
    if store is not None and not checkpoints:
        raise ValueError("checkpoints must name those of the store to sum over, as `find_checkpoints` gives, got none")
    found = collect(result, store, checkpoints, queries, groups)
    shown: dict[str, dict[str, Any]] = {"train": {}, "query": {}}
    if show is not None:
        for side, loader in (("train", train), ("query", query)):
            if loader is not None:
                shown[side] = show_examples(loader, side, set(found[side]["ids"]), show)
    path = expand(path)
    html = make_page(printable(title), {**found, "shown": shown}).encode()
    if len(html) >= MOST_BYTES:
        raise ValueError(
            f"the report would have {len(html) / 1e6:.1f} MB, and must have less than {MOST_BYTES / 1e6:g}; name fewer "
            "queries, or let show return less for an example"
        )
    if not path.parent.is_dir():
        raise StoreError(f"{path} cannot be written: there is no folder {path.parent}")
    write_whole(path, html)
    return path
