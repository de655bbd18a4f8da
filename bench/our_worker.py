"""One of our contenders alone in a process, for memory: `python -m sdi.bench.our_worker`.

It builds the case, warms up on a tiny part of the batch (which makes the sketch tables), settles, and runs once.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from contextlib import suppress
from typing import Any

import torch

from .cases import Case, tiny_part
from .contenders import contender, seconds
from .machine import THREADS


class Worker:
    def open(self, case: dict[str, Any], contender: str) -> dict[str, Any]:
        torch.set_num_threads(THREADS)
        self.case = Case.from_dict(case)
        self.model, self.batch = self.case.model(), self.case.batch()
        self.run_one = _contender(contender, self.model, self.case)
        return {}

    def run(self, tiny: bool = False) -> dict[str, Any]:
        batch = tiny_part(self.batch) if tiny else self.batch
        return {"seconds": seconds(self.run_one, self.model, batch)}

    def settle(self) -> dict[str, Any]:
        """Give back to the system what is free, so that it is not counted as the model's."""
        gc.collect()
        with suppress(AttributeError, OSError):  # not glibc: nothing to trim
            ctypes.CDLL(None).malloc_trim(0)
        return {}


def _contender(name: str, model: Any, case: Case) -> Any:
    return contender(name, model, case.config, case.sketch())


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not spoil an answer
    worker = Worker()
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"ok": True, **getattr(worker, question.pop("do"))(**question)}
        except Exception as error:
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
