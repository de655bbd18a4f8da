"""Retrieval: what an index finds of what the full scan finds, and how much faster, on features with real spectra.

Features of a pretrained model that ships are made, their spectrum and lengths measured; training examples are drawn
with these, 256 numbers each, into a store on disk; the queries are the real run's own. Questions are asked of
`stream_top`, which looks at every row, and of `Retriever`, in turns: all steps of a query, the later half of its loop,
and one step. Recall@10 is the share of the scan's ten that the index's ten hold; the time of a question is the least of
its rounds, in CPU time, and a ratio is of the sums over questions. Both have what a process needs once before: for the
scan the check of every shard's sha256, for the index the check of its file, shown beside; so is the bare product of the
mapped rows with one vector, which no scan can beat. One thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sdi.inputs.checkpoints import Checkpoint
from sdi.result.ranking import Top
from sdi.result.stream_top import stream_top
from sdi.result.train_blocks import train_blocks
from sdi.retrieval.build_index import build_index
from sdi.retrieval.index_file import index_path
from sdi.retrieval.retrieve_top import CANDIDATES, Retriever
from sdi.retrieval.structure import require_faiss
from sdi.run.one_thread import one_thread
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features
from sdi.store.store import Store

from ..harness.bars import BARS_OF_RETRIEVAL, judge
from ..harness.chart import Chart, Series
from ..harness.interleave import Progress
from ..harness.record import Record, Table
from ..work.real_features import TASKS, Spectrum, real_features

K = 10
POINT = Checkpoint(path=Path("synthetic"), eta=1.0, fingerprint="0" * 64)
Array = np.ndarray


class Work(NamedTuple):
    """Sizes of a measurement."""

    tasks: Sequence[str] = TASKS
    sizes: Sequence[int] = (10_000, 100_000, 1_000_000)
    numbers: int = 256  # of each example
    real: int = 1000  # real examples whose spectrum is taken
    queries: int = 8
    widths: Sequence[int] = (8, 16, 32, 64)
    candidates: Sequence[int] = (100, CANDIDATES)
    shard: int = 16384
    rounds: int = 3


QUICK = Work(("parity",), (500, 1500), 32, 12, 2, (4, 32), (50, CANDIDATES), 512, 1)
DEFAULT_WIDTH = 32


class Found(NamedTuple):
    """What one index of one size gave."""

    task: str
    examples: int
    width: int
    candidates: int
    recall: float
    ratio: float  # of the index's time to the scan's
    milliseconds: float  # of a question
    scan: float  # milliseconds of one by the scan
    product: float  # milliseconds of the rows' product with one vector, and nothing else
    searched: float  # bytes an example in the structure
    file: float  # bytes an example of the index's file


def measure_retrieval(work: Work, folder: Path, tell: Progress, seed: int = 0) -> Record:
    """For every task and size: the store, its indexes, and the questions."""
    faiss = require_faiss()
    found: list[Found] = []
    spectra, once = [], []
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        with one_thread():
            for task in work.tasks:
                spectrum = Spectrum.of(task, *real_features(task, work.real, work.queries, tell, seed), work.numbers)
                spectra.append(spectrum)
                for n in work.sizes:
                    more, row = _one_size(spectrum, n, work, folder, tell, seed)
                    found += more
                    once.append([task, f"{n:,}", *row])
    finally:
        faiss.omp_set_num_threads(threads)
    return _record(work, found, spectra, once, seed)


def _one_size(
    spectrum: Spectrum, n: int, work: Work, folder: Path, tell: Progress, seed: int
) -> tuple[list[Found], list[str]]:
    store = make_store(folder / f"retrieval-{spectrum.task}-{n}x{work.numbers}-{seed}", spectrum, n, work, tell, seed)
    checked = _seconds(lambda: [None for _ in train_blocks(store, [POINT])])
    product = _bare_product(store, spectrum, work.rounds)
    asked = questions(spectrum)
    scans = [_Timed(partial(stream_top, store, [POINT], k=K, **options)) for options in asked]
    found, opened, built = [], 0.0, 0.0
    for width in work.widths:
        tell(f"{spectrum.task}, {n:,} examples: index of width {width}")
        seconds = _seconds(partial(build_index, store, [POINT], width=width))
        began = time.process_time()
        index = Retriever(store, [POINT])
        _ = index.index.searcher
        opening = time.process_time() - began
        if width == DEFAULT_WIDTH:
            opened, built = opening, seconds
        for count in work.candidates:
            turns = [_Timed(partial(index.top, k=K, candidates=count, **options)) for options in asked]
            for k in range(work.rounds):
                tell(f"{spectrum.task}, {n:,} examples, width {width}, {count} candidates: round {k + 1}")
                for scan, turn in zip(scans, turns, strict=True):
                    if scan.rounds < work.rounds:
                        scan()
                    turn()
            recall = np.mean([_recall(scan.top, turn.top) for scan, turn in zip(scans, turns, strict=True)])
            scanned, took = (sum(t.best for t in timed) / len(asked) for timed in (scans, turns))
            size = index_path(store, None).stat().st_size / n
            each = index.index.nbytes / n
            found.append(
                Found(
                    task=spectrum.task,
                    examples=n,
                    width=width,
                    candidates=count,
                    recall=float(recall),
                    ratio=took / scanned,
                    milliseconds=1e3 * took,
                    scan=1e3 * scanned,
                    product=1e3 * product,
                    searched=each,
                    file=size,
                )
            )
    return found, [f"{checked:.2f} s", f"{opened:.2f} s", f"{built:.1f} s"]


class _Timed:
    """A question that is asked again and again: its answer, and the least time it took."""

    def __init__(self, ask: Callable[[], list[Top]]) -> None:
        self.ask, self.best, self.rounds = ask, np.inf, 0
        self.top: Any = None

    def __call__(self) -> None:
        began = time.process_time()
        (self.top,) = self.ask()
        self.best = min(self.best, time.process_time() - began)
        self.rounds += 1


def questions(spectrum: Spectrum) -> list[dict[str, Any]]:
    """For each query all steps, the later half and the one in the middle."""
    tau = spectrum.phi.shape[1]
    ranges = (None, slice(tau // 2 + 1, tau), max(1, tau // 2))
    return [{"queries": [f"q-{j}"], "steps": steps} for j in range(len(spectrum.phi)) for steps in ranges]


def _recall(scan: Top, found: Top) -> float:
    wanted = {row.train for row in scan}
    return len(wanted & {row.train for row in found}) / len(wanted)


def _bare_product(store: Store, spectrum: Spectrum, rounds: int) -> float:
    """CPU seconds of the product of all rows, mapped, with one vector; the least of the rounds."""
    parts = [part for _, (part,) in train_blocks(store, [POINT])]
    vector = spectrum.phi[0].sum(axis=0).astype(np.float32)[:, None]
    return min(_seconds(lambda: [part @ vector for part in parts]) for _ in range(rounds))


def _seconds(act: Callable[[], Any]) -> float:
    began = time.process_time()
    act()
    return time.process_time() - began


def make_store(path: Path, spectrum: Spectrum, n: int, work: Work, tell: Progress, seed: int) -> Store:
    """A store of drawn training examples and the real queries; what is there already is kept."""
    sketch = SketchMap.keep({"drawn": (work.numbers,)})
    config = {"dtype": "float32", "made": f"for sdi-bench retrieval of {spectrum.task}, {work.real} real examples"}
    store = Store.create(path, sketch, config)
    with store.writing():
        stored = store.rows(POINT.key, "train")
        for start in range(0, n, work.shard):
            ids = tuple(f"t-{i}" for i in range(start, min(start + work.shard, n)))
            if ids[0] in stored:
                continue
            tell(f"writing {spectrum.task}, {start:,} of {n:,} training examples")
            values = spectrum.draw(len(ids), seed, start)
            tau = np.full(len(ids), spectrum.phi.shape[1])
            store.append(POINT.key, "train", Features(values, tau, sketch.blocks, sketch.label, None, ids), ids)
        if not store.rows(POINT.key, "query"):
            phi = spectrum.phi.astype(np.float32)
            ids = tuple(f"q-{j}" for j in range(len(phi)))
            tau = np.full(len(phi), phi.shape[1])
            store.append(POINT.key, "query", Features(phi, tau, sketch.blocks, sketch.label, None, ids), ids)
    return store


def _record(
    work: Work, found: Sequence[Found], spectra: Sequence[Spectrum], once: Sequence[Sequence[str]], seed: int
) -> Record:
    usual = [f for f in found if f.width == DEFAULT_WIDTH and f.candidates == CANDIDATES]
    largest = [f for f in usual if f.examples == max(work.sizes)]
    figures = {
        f"{what} {f.task} n={f.examples} width={f.width} candidates={f.candidates}": [getattr(f, what)]
        for f in found
        for what in ("recall", "ratio", "milliseconds", "scan", "product")
    }
    axes = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= work.numbers]
    share = [
        [s.task, *(f"{s.energy[min(k, len(s.energy)) - 1]:.4f}" for k in axes),
         f"{np.quantile(s.lengths, 0.99) / np.median(s.lengths):.1f}"]
        for s in spectra
    ]  # fmt: skip
    tables = [
        Table("Retrieval, as sdi top --index does it", HEAD, [_row(f) for f in usual]),
        Table("What was tried at the largest size", HEAD, [_row(f) for f in found if f.examples == max(work.sizes)]),
        Table("Once a process, and once a store", ONCE, once),
        Table(
            "Spectra: share of the squared length along the first axes; lengths",
            ("spectrum", *map(str, axes), "99% / median length"), share,
        ),
    ]  # fmt: skip
    worst = {"recall": min(f.recall for f in largest), "ratio": max(f.ratio for f in largest), "one": 1.0}
    lines = [
        Series(f"{task}, {what}", list(work.sizes), [getattr(f, name) for f in usual if f.task == task])
        for task in work.tasks
        for what, name in (("scan", "scan"), ("index", "milliseconds"))
    ]
    return Record(
        kind="retrieval",
        settings={"tasks": " ".join(work.tasks), "numbers": work.numbers, "queries": work.queries, "seed": seed,
                  "rounds": work.rounds, "threads of a question": 1},
        figures=figures,
        tables=tables,
        bars=judge(BARS_OF_RETRIEVAL, worst) if max(work.sizes) >= 1_000_000 else (),
        charts=[Chart("Ten best of n examples", "examples", "milliseconds", lines)],
    )  # fmt: skip


ONCE = ("spectrum", "examples", "sha256 of shards", "index opened", "built")
HEAD = (
    "spectrum", "examples", "width", "candidates", "recall@10", "index / scan", "index", "scan", "bare product",
    "searched", "file",
)  # fmt: skip


def _row(f: Found) -> list[str]:
    times = [f"{t:.1f} ms" for t in (f.milliseconds, f.scan, f.product)]
    sizes = [f"{f.searched:.1f} B each", f"{f.file:.1f} B each"]
    return [
        f.task,
        f"{f.examples:,}",
        str(f.width),
        str(f.candidates),
        f"{f.recall:.3f}",
        f"{f.ratio:.3f}",
        *times,
        *sizes,
    ]
