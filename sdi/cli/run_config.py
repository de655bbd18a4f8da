"""Shared by the commands that take a config: progress bar, summary lines, and finding rankings in stores or results."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape

import sdi
from sdi.backends import backend as backend_named
from sdi.cli.progress import run_bar
from sdi.cli.tables import top_table
from sdi.inputs.batches import name_examples
from sdi.inputs.checkpoints import Checkpoint
from sdi.printable import printable
from sdi.result.ranking import Top
from sdi.result.result import Result
from sdi.run.choose_m import ChosenM
from sdi.run.run_record import read_record
from sdi.run.runs import Run, check_filled, open_stores
from sdi.store.store import Store


def bar_for(the: Run, quiet: bool) -> AbstractContextManager[Any]:
    counts = [loader.batches for loader in the.loaders.values()]
    batches = None if None in counts else sum(count for count in counts if count is not None)
    return run_bar(batches, len(the.points) * the.config.settings.repeats, quiet)


def counts_line(the: Run) -> str:
    return f"store {escape(printable(the.config.store))}: {the.made:,} features made, {the.reused:,} reused"


def summary_of(the: Run, result: Result) -> dict[str, Any]:
    sizes = dict(zip(result.by_checkpoint.dims, result.by_checkpoint.shape, strict=True))
    files = {"store": str(the.config.store), "result": str(the.config.result)}
    return {**files, "mode": result.mode, "sizes": sizes, "made": the.made, "reused": the.reused, "notes": result.notes}


def show_result(console: Console, the: Run, result: Result, tops: Sequence[Top]) -> None:
    for top in tops:
        console.print(top_table(top, result))
        console.print()
    if the.made or the.reused:
        console.print(counts_line(the), soft_wrap=True)
    console.print(f"result {escape(printable(the.config.result))}: {_sizes(result)}", soft_wrap=True)
    for note in result.notes:
        console.print(f"[yellow]note[/] {escape(printable(note))}", soft_wrap=True)


def _sizes(result: Result) -> str:
    shape = zip(result.by_checkpoint.dims, result.by_checkpoint.shape, strict=True)
    return " × ".join(f"{size} {dim}" for dim, size in shape)


def parse_steps(text: str | None) -> slice | int | None:
    """Steps as `Result.top` takes them, from text: "17-32", "17-" or "5", from 1, both ends included.

    >>> parse_steps("17-32"), parse_steps("17-"), parse_steps("5")
    (slice(17, 32, None), slice(17, None, None), 5)
    """
    if text is None:
        return None
    found = re.fullmatch(r"(\d*)(-?)(\d*)", text.strip())
    if found is None or not (found[1] or found[3]):
        raise ValueError(f"--steps must be a step such as 17 or a range such as 17-32, got {text!r}")
    if not found[2]:
        return int(found[1])
    return slice(int(found[1]) if found[1] else None, int(found[3]) if found[3] else None)


def find_tops(
    source: Path, queries: Sequence[str], k: int, steps: slice | int | None, by: str
) -> tuple[list[Top], Result | None]:
    """Rankings for these queries: from a result file; or streamed from the store of a config or a run's folder; or,
    where that store cannot be streamed (no steps of queries, several sketches), from the run's saved result."""
    queries = list(dict.fromkeys(queries))
    if source.is_file() and source.suffix != ".toml":
        return _from_result(source, queries, k, steps, by)
    found = _find_run(source, queries)
    if found.store is None:
        return _from_result(found.find_result(), queries, k, steps, by)
    return sdi.stream_top(
        found.store, found.points, queries, k, steps, by, train=found.train, stderr=found.stderr
    ), None


def find_parts(source: Path, query: str, train: Sequence[str]) -> sdi.Parts:
    """Influence by parameter, from the store of a config or a run's folder. Without `train`, of the training example
    with the largest influence on the query."""
    if source.is_file() and source.suffix != ".toml":
        raise ValueError(
            f"SOURCE must be a config or a run's folder, got {source}: a saved result does not hold its parts"
        )
    found = _find_run(source, [query])
    if found.store is None:
        raise ValueError(
            "parts are read from a store of one sketch that has the steps of queries; this run has "
            f"backend={found.backend!r}, repeats={found.repeats}, mode={found.mode!r}"
        )
    if not train:
        (top,) = sdi.stream_top(found.store, found.points, [query], 1, by="absolute", train=found.train)
        train = [row.train for row in top]
    return sdi.parts(found.store, found.points, query, list(dict.fromkeys(train)), found.stderr)


class _Found(NamedTuple):
    """A finished run: its store (None unless it is a single one with the queries' steps), checkpoints, training ids."""

    backend: str
    repeats: int
    mode: str
    points: Sequence[Checkpoint]
    find_result: Callable[[], Path]
    store: Store | None
    train: tuple[str, ...]
    stderr: str  # as the config says; "auto" is as the store was begun


def _find_run(source: Path, queries: Sequence[str]) -> _Found:
    """The run of a folder, read from its run.json without running code; or of a config, whose script gives the ids."""
    if source.is_dir():
        record = read_record(source)
        kind = (record.backend, record.repeats, record.mode)
        store = record.open_store() if _can_stream(*kind) else None
        points, result, ids, bars = record.checkpoints, record.find_result, record.ids, "auto"
    else:
        the = Run.read(source)
        c = the.config.settings
        kind = (c.backend, c.repeats, c.mode)
        store = open_stores(the)[0] if _can_stream(*kind) else None
        points, result, ids = tuple(the.points), lambda: the.config.result, the.ids() if store else {"train": ()}
        bars = c.stderr
    if store is not None:
        asked = [query for query in queries if query in ids["query"]]
        check_filled(store, points, {"train": ids["train"], "query": asked})
    return _Found(*kind, points, result, store, ids["train"], bars)


def _can_stream(backend: str, repeats: int, mode: str) -> bool:
    """Whether such a run has a single store that keeps the steps of the queries."""
    return backend != "exact" and repeats == 1 and mode in ("query", "matrix")


def _from_result(
    path: Path, queries: Sequence[str], k: int, steps: slice | int | None, by: str
) -> tuple[list[Top], Result]:
    result = sdi.load(path)
    return [result.top(k, query=query, steps=steps, by=by) for query in queries], result


def pilot(target: float, path: Path) -> ChosenM:
    """`choose_m` on the first training batch, at the last checkpoint."""
    the = Run.read(path)
    settings = the.config.settings
    backend = "fast" if settings.backend == "exact" else settings.backend
    verbs = backend_named(backend)
    batch = name_examples(next(iter(the.loaders["train"]))).batch
    with verbs.weights_kept(the.model):
        model = the.points[-1].load_into(the.model, verbs)
        options: dict[str, Any] = {"loop": the.config.loop, "backend": backend, "sketch": settings.sketch}
        return sdi.choose_m(target, model=model, loss=the.script.loss, batch=batch, **options)
