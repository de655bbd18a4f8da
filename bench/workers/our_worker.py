"""One of our contenders alone in a process, for memory: `python -m sdi.bench.workers.our_worker`.

It builds the case, warms up on a tiny part of the batch (which makes the sketch tables), settles, and runs once.
"""

from __future__ import annotations

from typing import Any

import torch

from sdi.run.resident_memory import give_back

from ..harness.machine import THREADS
from ..work.cases import Case, tiny_part
from ..work.contenders import contender as make_contender
from ..work.contenders import seconds
from .serve import serve


class Worker:
    def open(self, case: dict[str, Any], contender: str) -> dict[str, Any]:
        torch.set_num_threads(THREADS)
        self.case = Case.from_dict(case)
        self.model, self.batch = self.case.model(), self.case.batch()
        self.run_one = make_contender(contender, self.model, self.case.config, self.case.sketch())
        return {}

    def run(self, tiny: bool = False) -> dict[str, Any]:
        batch = tiny_part(self.batch) if tiny else self.batch
        return {"seconds": seconds(self.run_one, self.model, batch)}

    def settle(self) -> dict[str, Any]:
        """Return free memory to the system, so that it is not counted as the model's."""
        give_back()
        return {}


if __name__ == "__main__":
    serve(Worker())
