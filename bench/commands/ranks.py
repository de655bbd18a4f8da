"""Two ranks of a torch.distributed job, a thread each, against one process with two threads: time, and what it costs.

The same `sdi.attribute` with a store, from the first batch to the result, in processes that are kept: the imports and
the meeting of the ranks are timed apart. The ranks have as many groups of batches each; each audits its own first batch
of either loader. Before any time is taken the two results are compared.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

import sdi

from ..harness.bars import BARS_OF_RANKS, judge
from ..harness.interleave import Progress, interleave
from ..harness.record import Record, Table
from ..work.cases import Case, sudoku
from ..workers.remote import Remote

ALONE, RANKS = "one process", "two ranks"
CLOSE = 1e-4  # of the largest score: sums are rounded in another order where threads share them


class Work(NamedTuple):
    case: Case
    train: int  # batches
    query: int


def ranks_work(quick: bool, seed: int = 0) -> Work:
    return Work(sudoku(True, seed), 8, 8) if quick else Work(replace(sudoku(seed=seed), examples=8), 48, 8)


def measure_ranks(work: Work, rounds: int, tell: Progress) -> Record:
    """Time both, interleaved."""
    case = work.case
    with tempfile.TemporaryDirectory(prefix="sdi-bench-") as scratch, ExitStack() as stack:
        folder = Path(scratch)
        point, start_up = folder / "step-1.safetensors", {}

        def started(name: str, threads: Sequence[int]) -> list[Remote]:
            began = time.perf_counter()
            workers = [stack.enter_context(_worker(n)) for n in threads]
            opened = {"case": case.to_dict(), "train": work.train, "query": work.query}
            _all(workers, lambda k, w: w.ask("open", threads=threads[k], **opened))
            if len(workers) > 1:
                place = {"n": len(workers), "meeting": str(folder / "meeting")}
                _all(workers, lambda k, w: w.ask("join", rank=k, **place))
            start_up[name] = time.perf_counter() - began
            return workers

        tell("starting processes")
        workers = {ALONE: started(ALONE, [2]), RANKS: started(RANKS, [1, 1])}
        workers[ALONE][0].ask("prepare", checkpoint=str(point))
        costs: dict[str, dict[str, list[float]]] = {name: {"cpu": [], "memory": []} for name in workers}

        def turn(name: str) -> Callable[[], float]:
            def timed() -> float:
                store = folder / "store"
                shutil.rmtree(store, ignore_errors=True)
                given = {"checkpoint": str(point), "store": str(store)}
                said = _all(workers[name], lambda k, w: w.ask("run", save=str(folder / f"{name}-{k}"), **given))
                for what, values in costs[name].items():
                    values.append(sum(one[what] for one in said))
                return max(float(one["seconds"]) for one in said)

            return timed

        turns = {name: turn(name) for name in workers}
        for name, one in turns.items():
            tell(f"{name}, warm-up")
            one()
        apart = _difference([folder / f"{ALONE}-0", folder / f"{RANKS}-0", folder / f"{RANKS}-1"])
        if apart > CLOSE:
            raise RuntimeError(f"the ranks' scores differ from those of one process by {apart:.1g} of the largest")
        for values in costs.values():
            values["cpu"].clear()
        seconds = interleave(turns, rounds, tell, warm=True)
    cpu = {name: costs[name]["cpu"] for name in costs}
    memory = {name: max(costs[name]["memory"]) for name in costs}
    rows = []
    for name, s in seconds.items():
        times = [f"{x:.2f} s" for x in (min(s), median(s), median(cpu[name]))]
        rows.append([name, *times, f"{memory[name] / 2**20:,.0f} MiB", f"{start_up[name]:.1f} s"])
    head = ("what", "least", "median", "CPU time", "memory, all processes", "to start and meet")
    best = {name: min(values) for name, values in seconds.items()}
    return Record(
        kind="ranks",
        settings={
            "case": case.says,
            "batches": f"{work.train} + {work.query}",
            "rounds": rounds,
            "apart": f"{apart:.1g}",
        },
        figures={
            **seconds,
            **{f"{name}: CPU": cpu[name] for name in cpu},
            **{f"{name}: memory": [memory[name]] for name in memory},
            **{f"{name}: start": [start_up[name]] for name in start_up},
        },
        tables=[Table("Two ranks on a thread each, and one process on two threads", head, rows)],
        bars=judge(BARS_OF_RANKS, best),
    )


def _worker(threads: int) -> Remote:
    env = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    return Remote([sys.executable, "-m", "sdi.bench.workers.ranks_worker"], env)


def _all(workers: Sequence[Remote], ask: Callable[[int, Remote], dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask all workers at once; their answers."""
    with ThreadPoolExecutor(len(workers)) as pool:
        return list(pool.map(ask, range(len(workers)), workers))


def _difference(files: Sequence[Path]) -> float:
    """How far results are from the first, as a share of its largest score."""
    first, *others = (sdi.load(file) for file in files)
    if any(other.labels != first.labels for other in others):
        raise RuntimeError("the ranks' result is of other examples than that of one process")
    largest = np.abs(first.sdi_values).max()
    return float(max(np.abs(other.sdi_values - first.sdi_values).max() for other in others) / largest)
