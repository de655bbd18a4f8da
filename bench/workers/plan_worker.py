"""A run that was planned, alone in a process: `python -m sdi.bench.workers.plan_worker`.

It plans, or makes the features of n examples and ranks them; both with the same model, checkpoints and batches.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

import sdi
from sdi.backends import backend, room
from sdi.inputs.settings import Settings
from sdi.run.attribute import make_stores
from sdi.run.fill import Job, Side, fill
from sdi.run.resident_memory import give_back, start_peak, status

from ..harness.machine import THREADS
from ..work.cases import Batches, Case
from .serve import serve


class Numbers:
    """n examples of one number each."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for start in range(0, self.n, 64):
            x = np.arange(start, min(start + 64, self.n))
            yield {"id": [f"t-{k}" for k in x], "x": x}


class Worker:
    def open(self, case: dict[str, Any], folder: str, queries: int) -> dict[str, Any]:
        torch.set_num_threads(THREADS)
        self.case, self.folder, self.queries = Case.from_dict(case), Path(folder), queries
        self.model, self.loss = self.case.model(), room("fast").token_cross_entropy
        self.loop, self.settings = self.case.config.loop(), Settings(m=self.case.m)
        self.files = str(self.folder / "*.safetensors")
        return {}

    def plan(self, sizes: list[int]) -> dict[str, Any]:
        """What `sdi.plan` says, from the batches that there are for the smallest size."""
        sides = {"train": Batches(self.case, min(sizes), "t"), "query": Batches(self.case, self.queries, "q")}
        options: dict[str, Any] = {"loss": self.loss, "loop": self.loop, "checkpoints": self.files, **sides}
        return sdi.plan(self.model, **options, examples=sizes, settings=self.settings).to_dict()

    def run(self, n: int) -> dict[str, Any]:
        """Make all features and rank for all queries; then what both took."""
        wall, cpu = perf_counter(), process_time()
        points = sdi.find_checkpoints(self.files)
        job = Job(backend("fast"), self.model, self.loss, self.loop, self.settings)
        loaders = {"train": Batches(self.case, n, "t"), "query": Batches(self.case, self.queries, "q")}
        sides = {name: Side(name, loader) for name, loader in loaders.items()}
        (store,) = make_stores(self.folder / f"store-{n}-{os.getpid()}", job, points, sides)
        ids = fill(store, job, points, sides)
        out = {"wall": perf_counter() - wall, "cpu": process_time() - cpu, "memory": status("self", "VmHWM")}
        out["disk"] = sum(f.stat().st_size for f in store.path.rglob("*") if f.name.startswith(("shard-", "manifest")))
        cpu = process_time()
        sdi.stream_top(sdi.Store(store.path), points, ids["query"])
        return {**out, "ranking": process_time() - cpu}

    def labels(self, n: int) -> dict[str, Any]:
        """The peak of memory where n examples have one number each, so that their labels are what grows."""
        sketch = sdi.SketchMap.keep({"w": (1,)})

        class Ones:
            def __init__(self, *arguments: Any, **options: Any) -> None: ...

            def __call__(self, batch: Any, ids: Sequence[str] = ()) -> sdi.Features:
                tau = np.ones(len(ids), dtype=np.int64)
                return sdi.Features(
                    np.ones((len(ids), 1), np.float32), tau, sketch.blocks, sketch.label, None, tuple(ids)
                )

        nothing: Any = SimpleNamespace(
            Featurizer=Ones, weights_kept=lambda model: nullcontext(), with_weights=lambda model, weights: model
        )
        points = sdi.find_checkpoints(self.files)
        store = sdi.Store.create(self.folder / f"labels-{n}", sketch, {"dtype": "float32"})
        job = Job(nothing, None, self.loss, self.loop, Settings(audit="off", shard=4096))
        give_back()
        start_peak()
        held = status("self", "VmRSS")
        fill(store, job, points, {"train": Side("train", Numbers(n)), "query": Side("query", Numbers(64))})
        return {"peak": status("self", "VmHWM") - held, "checkpoints": len(points)}


if __name__ == "__main__":
    serve(Worker())
