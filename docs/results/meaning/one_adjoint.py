"""What one adjoint costs, as a multiple of the training that it goes through, in CPU time: five times for each task.

    python docs/results/meaning/one_adjoint.py FOLDER

FOLDER keeps the training runs.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

import sdi
from sdi.backends import room

ROUNDS = 5


def main(folder: str) -> None:
    torch.set_num_threads(1)
    settings: Any = room("experiments.meaning.settings")
    training, tasks = room("experiments.meaning.training"), room("experiments.meaning.tasks")
    for of in (settings.PARITY, settings.SUDOKU, settings.LANGUAGE):
        run, query = training.training_run(of, 0), tasks.task_of(of).queries(of)[:1]
        found = []
        for _ in range(ROUNDS):
            result = sdi.through_training(
                run, query, mode="tracin", window=of.window, together=True, probes=0, folder=f"{folder}/{of.task}"
            )
            found.append(result.info["cost"])
        best = min(cost["seconds"] for cost in found) / min(cost["training"] for cost in found)
        each = ", ".join(f"{cost['multiple']:.2f}" for cost in found)
        print(f"{of.task}: {best:.2f} times training, least of both; round by round {each}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
