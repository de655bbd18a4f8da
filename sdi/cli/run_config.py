"""Shared by the commands that take a config: progress bar, summary lines, and finding rankings in stores or results."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.markup import escape

import sdi
from sdi.backends import backend as backend_named
from sdi.backends import room
from sdi.cli.tables import top_table
from sdi.files import is_url
from sdi.inputs.batches import name_examples
from sdi.inputs.checkpoints import Checkpoint
from sdi.inputs.groups_file import read_groups
from sdi.printable import printable
from sdi.ranks import in_job
from sdi.result.ranking import Top
from sdi.result.result import Result
from sdi.result.score_store import score
from sdi.retrieval.index_file import index_path
from sdi.run.choose_m import ChosenM
from sdi.run.progress_bar import count_batches, run_bar
from sdi.run.run_record import read_record
from sdi.run.runs import Run, check_filled, open_stores
from sdi.store.remote import fetched
from sdi.store.share import TORCHRUN, Share
from sdi.store.store import Store

LISTED = 20  # queries that are named where one is asked for


@contextmanager
def sharing(the: Run, part: str | None) -> Iterator[None]:
    """Set the run's share: of an array job, if there is a part, or of the torch.distributed job of this process."""
    if part is not None:
        if TORCHRUN in os.environ:
            raise ValueError(f"--part is for jobs without torchrun, which deals out the work itself, got {part!r}")
        the.share = Share.parse(part)
        yield
        return
    with joined_job(the) as the.share:
        yield


@contextmanager
def joined_job(source: Path | Run) -> Iterator[Share]:
    """The share of this process in the torch.distributed job that it was started for; alone where there is none."""
    if isinstance(source, Run):
        _ = source.script  # which may join a job itself
    if TORCHRUN not in os.environ and not in_job():
        yield Share()
        return
    with room("fast.ranks").torchrun_job() as share:
        yield share


def find_place(source: str) -> Path:
    """The path of SOURCE; of a store in object storage, the folder that it was fetched to."""
    return fetched(source) if is_url(source) else Path(source)


def read_source(place: str) -> Path | Run:
    """A config as a run; a folder, or the file of a result, as it is."""
    source = find_place(place)
    return source if source.is_dir() or (source.is_file() and source.suffix != ".toml") else Run.read(source)


def bar_for(the: Run, quiet: bool) -> AbstractContextManager[Any]:
    quiet = quiet or not (the.share.leads or the.share.apart)
    return run_bar(count_batches(the.loaders.values()), len(the.points) * the.config.settings.repeats, quiet)


def counts_line(the: Run) -> str:
    by = f" by {the.share}" if the.share.n > 1 else ""
    return f"store {escape(printable(the.config.store))}: {the.made:,} features made{by}, {the.reused:,} reused"


def summary_of(the: Run, result: Result) -> dict[str, Any]:
    files = {"store": str(the.config.store), "result": str(the.config.result)}
    counts = {"made": the.made, "reused": the.reused}
    return {**files, "mode": result.mode, "sizes": result.sizes, **counts, "notes": result.notes}


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
    return " × ".join(f"{size} {dim}" for dim, size in result.sizes.items())


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


def find_ids(source: Path | Run) -> dict[str, tuple[str, ...]]:
    """The ids of both sides: of a saved result, of the last run in a folder, or of a run, whose script is run."""
    if isinstance(source, Run):
        return source.ids()
    if source.is_dir():
        return dict(read_record(source).ids)
    result = sdi.load(source)
    return {side: tuple(map(str, result.labels[side])) for side in ("train", "query")}


def asked(source: Path | Run, queries: Sequence[str]) -> list[str]:
    """The queries that were asked for, each once; ValueError that lists what there is, if none was."""
    if queries:
        return list(dict.fromkeys(queries))
    known = find_ids(source)["query"]
    shown = "\n  ".join(known[:LISTED])
    more = f"\n  ... and {len(known) - LISTED} more: sdi ids {source} --side query" if len(known) > LISTED else ""
    raise ValueError(f"--query must name a query; {source} has {len(known)}:\n  {shown}{more}")


def find_tops(
    source: Path | Run,
    queries: Sequence[str],
    k: int,
    steps: slice | int | None,
    by: str,
    share: Share,
    train_steps: slice | int | None = None,
    candidates: int | None = None,
) -> tuple[list[Top], Result | None]:
    """Rankings for these queries: from a result file; or streamed from the store of a run or its folder; or, where that
    store cannot be streamed (no steps of queries, several sketches), from the run's saved result.

    share: which of several processes this is, each of which reads some of the shards; the first also gets what to draw.
    candidates: how many the store's index is to find; None: every example is looked at.
    """
    queries = asked(source, queries)
    if train_steps is not None or candidates is not None:
        found = _with_store(source, queries, "--index and --train-steps", "rankings are")
    else:
        if isinstance(source, Path) and source.is_file():
            return _from_result(source, queries, k, steps, by)
        found = find_run(source, queries)
        if found.store is None:
            return _from_result(found.find_result(), queries, k, steps, by)
    store = found.store
    assert store is not None
    options: dict[str, Any] = {"train": found.train, "stderr": found.stderr, "train_steps": train_steps}
    if candidates is None:
        tops = sdi.stream_top(store, found.points, queries, k, steps, by, ranks=share.together, **options)
    else:
        tops = sdi.retrieve_top(store, found.points, queries, k, steps, by, candidates=candidates, **options)
    return tops, trajectories(found, tops) if share.leads and train_steps is None else None


def trajectories(found: Found, tops: Sequence[Top]) -> Result | None:
    """The scores, step by step, of what stands in rankings that were streamed from a store; None if that is nothing."""
    train = list(dict.fromkeys(row.train for top in tops for row in top))
    if found.store is None or not train:
        return None
    return score(found.store, found.points, train, [top.query for top in tops], "query", {}, found.stderr)


def find_group_tops(
    source: Path | Run, queries: Sequence[str], groups: Path, k: int, steps: slice | int | None, by: str
) -> tuple[list[Top], Result]:
    """Rankings of groups for these queries, from the store of a run or its folder. groups: their file."""
    if isinstance(source, Path) and source.is_file():
        raise ValueError(
            f"SOURCE must be a config or a run's folder with --by-group, got {source}: the error bars of groups need "
            "the features in the store"
        )
    known = read_groups(groups)
    queries = asked(source, queries)
    found = find_run(source, queries)
    if found.store is None:
        raise ValueError(_no_parts("groups are", found))
    scored = sdi.group_scores(found.store, found.points, known, queries, found.train, found.stderr)
    return [scored.top(k, query=query, steps=steps, by=by) for query in queries], scored.result


def _with_store(source: Path | Run, queries: Sequence[str], option: str, what: str) -> Found:
    """The run, or that of a folder; refused if it has no single store with the steps of queries."""
    if isinstance(source, Path) and source.is_file():
        raise ValueError(f"SOURCE must be a config or a run's folder with {option}, got {source}")
    found = find_run(source, queries)
    if found.store is None:
        raise ValueError(_no_parts(what, found))
    return found


def make_index(
    source: Path | Run, kind: str, width: int, train_steps: slice | int | None, tell: Callable[[str], None]
) -> tuple[sdi.Index, Path]:
    """Build the index of the store of a run or its folder. Returns it and its file."""
    found = _with_store(source, [], "sdi index", "an index is")
    assert found.store is not None
    index = sdi.build_index(found.store, found.points, found.train, kind, width, train_steps, tell)
    steps = index.of["train_steps"]
    return index, index_path(found.store, None if steps is None else (steps[0], steps[1]))


def _no_parts(what: str, found: Found) -> str:
    return (
        f"{what} read from a store of one sketch that has the steps of queries; this run has "
        f"backend={found.backend!r}, repeats={found.repeats}, mode={found.mode!r}"
    )


def find_parts(source: Path | Run, query: str | None, train: Sequence[str]) -> sdi.Parts:
    """Influence by parameter, from the store of a run or its folder. Without `train`, of the training example
    with the largest influence on the query."""
    if isinstance(source, Path) and source.is_file():
        raise ValueError(
            f"SOURCE must be a config or a run's folder, got {source}: a saved result does not hold its parts"
        )
    (query,) = asked(source, [] if query is None else [query])
    found = find_run(source, [query])
    if found.store is None:
        raise ValueError(_no_parts("parts are", found))
    if not train:
        (top,) = sdi.stream_top(found.store, found.points, [query], 1, by="absolute", train=found.train)
        train = [row.train for row in top]
    return sdi.parts(found.store, found.points, query, list(dict.fromkeys(train)), found.stderr)


class Found(NamedTuple):
    """A finished run: its store (None unless it is a single one with the queries' steps), checkpoints, training ids."""

    backend: str
    repeats: int
    mode: str
    points: Sequence[Checkpoint]
    find_result: Callable[[], Path]
    store: Store | None
    train: tuple[str, ...]
    stderr: str  # as the config says; "auto" is as the store was begun


def find_run(source: Path | Run, queries: Sequence[str]) -> Found:
    """The run of a folder, read from its run.json without running code; or a run, whose script gives the ids."""
    if isinstance(source, Path):
        record = read_record(source)
        kind = (record.backend, record.repeats, record.mode)
        store = record.open_store() if _can_stream(*kind) else None
        points, result, ids, bars = record.checkpoints, record.find_result, record.ids, "auto"
    else:
        c = source.config.settings
        kind = (c.backend, c.repeats, c.mode)
        store = open_stores(source)[0] if _can_stream(*kind) else None
        points, result = tuple(source.points), lambda: source.config.result
        ids = source.ids() if store else {"train": ()}
        bars = c.stderr
    if store is not None:
        known = [query for query in queries if query in ids["query"]]
        check_filled(store, points, {"train": ids["train"], "query": known})
    return Found(*kind, points, result, store, ids["train"], bars)


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
