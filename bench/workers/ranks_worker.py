"""A process that attributes alone or as one rank of several: `python -m sdi.bench.workers.ranks_worker`."""

from __future__ import annotations

import resource
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import save_file

import sdi
from sdi.fast import token_cross_entropy

from ..work.cases import Case
from .serve import serve

BATCHES = 4  # of a group, which is a shard of the store


class Worker:
    def open(self, case: dict[str, Any], threads: int, train: int, query: int) -> dict[str, Any]:
        """Build model and data. train, query: how many batches of each."""
        torch.set_num_threads(threads)
        self.case = Case.from_dict(case)
        self.model = self.case.model()
        self.loaders = [
            self._batches("t", range(1, train + 1)),
            self._batches("q", range(train + 1, train + query + 1)),
        ]
        return {}

    def prepare(self, checkpoint: str) -> dict[str, Any]:
        save_file(self.model.state_dict(), checkpoint)
        return {}

    def join(self, rank: int, n: int, meeting: str) -> dict[str, Any]:
        dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=n)
        return {}

    def run(self, checkpoint: str, store: str, save: str) -> dict[str, Any]:
        """Fill a new store and score it. save: a file for the result."""
        began, cpu = time.perf_counter(), time.process_time()
        result = sdi.attribute(
            self.model,
            loss=token_cross_entropy,
            loop=self.case.config.loop(),
            checkpoints=checkpoint,
            train=self.loaders[0],
            query=self.loaders[1],
            eta=[1.0],
            store=store,
            m=self.case.m,
            spread=False,
            shard=BATCHES * self.case.examples,
        )
        found = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}
        result.save(Path(save))
        return {**found, "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}

    def _batches(self, name: str, numbers: range) -> list[dict[str, Any]]:
        B = self.case.examples
        return [{**self.case.batch(k), "id": [f"{name}-{k}-{i}" for i in range(B)]} for k in numbers]


if __name__ == "__main__":
    serve(Worker())
