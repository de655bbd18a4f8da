"""A million examples of the 135.1M model at 32 loop steps: their store planned, then written to disk and ranked from.

The plan times batches of the model itself. The store is the one that a run begins: the same manifest, shards and
labels, and the real features of the queries. Only the training features are not the model's, whose making takes
weeks: one shard of random numbers again and again, each example with another length. Bytes must be equal. Times of
writing and of ranking are compared in CPU seconds and shown by the clock, too: files of this size do not stay in
memory.
"""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import torch
from safetensors.torch import save_file

import sdi
from sdi.backends import backend, room
from sdi.inputs.settings import Settings
from sdi.planning.cost import Cost, timed
from sdi.planning.store_bytes import split_shards
from sdi.run.attribute import make_stores
from sdi.run.fill import Job, Side, fill
from sdi.store.features import Features
from sdi.store.store import Store

from ..harness.bars import BARS_OF_MILLION, judge
from ..harness.interleave import Progress
from ..harness.machine import THREADS
from ..harness.record import Record, Table
from ..work.cases import Batches, Case

TIMED, QUERIES = 3, 8  # batches of training examples that the plan may time; queries
MILLION = 1_000_000
DTYPE: Final = "int8"


def measure_million(case: Case, examples: int, folder: Path, tell: Progress, seed: int = 0) -> Record:
    """Plan, write and rank. folder: where the store is made; it is deleted in the end."""
    torch.set_num_threads(THREADS)
    model, loss, loop = case.model(), room("fast").token_cross_entropy, case.config.loop()
    settings = Settings(m=case.m, spread=False, dtype=DTYPE)
    train, query = Batches(case, TIMED * case.examples, "t"), Batches(case, QUERIES, "q")
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix="million-", dir=folder) as scratch:
        file = Path(scratch) / "step-0.safetensors"
        save_file(model.state_dict(), file)
        asked: dict[str, Any] = {"checkpoints": str(file), "eta": [0.1], "train": train, "query": query}
        sizes = (examples, MILLION)
        plan = sdi.plan(model, loss=loss, loop=loop, **asked, examples=sizes, settings=settings, progress=tell)
        planned, million = plan.sizes
        free = shutil.disk_usage(scratch).free
        if planned.disk_bytes > free:
            raise ValueError(
                f"--examples {examples:,} takes {planned.disk_bytes:,} B in {folder}, which has {free:,} B left"
            )
        points = sdi.find_checkpoints(asked["checkpoints"], asked["eta"])
        job = Job(backend("fast"), model, loss, loop, settings)
        (store,) = make_stores(Path(scratch) / "store", job, points, {})
        tell("making the features of the queries")
        ids = fill(store, job, points, {"query": Side("query", query)})["query"]
        write = timed(partial(write_random, store, points[0].key, case, examples, settings.shard, tell, seed))[1]
        disk = sum(f.stat().st_size for f in store.path.rglob("*") if f.name.startswith(("shard-", "manifest")))
        tell("ranking")
        rank = timed(lambda: sdi.stream_top(Store(store.path), points, ids))[1]
    of_one = plan.measured["train"]["write"]
    will_write = Cost(examples * of_one["wall"], examples * of_one["cpu"])
    will_rank = Cost(planned.score_seconds or 0.0, planned.score_cpu_seconds or 0.0)
    figures = {
        "planned disk": float(planned.disk_bytes), "disk": float(disk),
        "planned writing": will_write.cpu, "writing": write.cpu, "writing, clock": write.wall,
        "planned ranking": will_rank.cpu, "ranking": rank.cpu, "ranking, clock": rank.wall,
    }  # fmt: skip
    rows = [["disk", f"{planned.disk_bytes:,} B", f"{disk:,} B", f"{planned.disk_bytes / disk:.4f}", ""]]
    for what, will, did in (("writing, training side", will_write, write), ("ranking, all queries", will_rank, rank)):
        clock = f"{did.wall:,.0f} s, {disk / did.wall / 1e6:,.0f} MB/s"
        rows.append([what, f"{will.cpu:,.0f} s", f"{did.cpu:,.0f} s", f"{will.cpu / did.cpu:.3f}", clock])
    for what, amount in (
        ("disk", f"{million.disk_bytes / 1e9:.1f} GB"),
        ("features, CPU time", f"{(million.cpu_seconds or 0) / 86400:,.1f} days"),
        ("ranking, CPU time", f"{million.score_cpu_seconds or 0:,.0f} s"),
        ("memory of a process that makes features", f"{(million.memory_bytes or 0) / 1e9:.1f} GB"),
    ):
        rows.append([f"{MILLION:,} examples: {what}", amount, "", "", ""])
    return Record(
        kind="million",
        settings={
            "case": case.says,
            "examples": f"{examples:,}",
            "queries": QUERIES,
            "dtype": DTYPE,
            "numbers of an example": store.sketch.size,
            "seed": seed,
        },
        figures={name: [value] for name, value in figures.items()},
        tables=[Table("A store, planned and simulated", ("what", "planned", "taken", "ratio", "by the clock"), rows)],
        bars=judge(BARS_OF_MILLION, figures),
    )


def write_random(
    store: Store, checkpoint: str, case: Case, examples: int, shard: int, tell: Progress, seed: int = 0
) -> None:
    """Training examples of random features, in the shards that a run would write."""
    rows, random = split_shards(examples, case.examples, shard).rows, np.random.default_rng(seed)
    values = random.standard_normal((rows, store.sketch.size), dtype=np.float32)
    with store.writing():
        for start in range(0, examples, rows):
            if start // rows % 100 == 0:
                tell(f"writing training examples, {start:,} of {examples:,}")
            count = min(rows, examples - start)
            length = random.lognormal(size=(count, 1)).astype(np.float32)
            ids = tuple(f"t-{start + k}" for k in range(count))
            tau, losses = np.full(count, case.config.tau), np.ones(count)
            features = Features(
                values[:count] * length, tau, store.blocks, store.sketch.label, None, ids, losses=losses
            )
            store.append(checkpoint, "train", features, [f"{start + k:016x}" for k in range(count)])
