"""Step-swap LDS of the derivative and of TracIn on the parity task through a window: seed by seed, and the mean.

    python docs/results/meaning/by_seed.py FOLDER WINDOW

FOLDER keeps the runs. The groups are those of the experiment's judgement; agreement is that of the worst step.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch

import sdi
from sdi.backends import room

SEEDS = (0, 1, 2)


def main(folder: str, window: int) -> None:
    torch.set_num_threads(1)
    settings: Any = room("experiments.meaning.settings").PARITY
    training, tasks = room("experiments.meaning.training"), room("experiments.meaning.tasks")
    runs = [training.training_run(settings, seed) for seed in SEEDS]
    query = tasks.task_of(settings).queries(settings)
    common: dict[str, Any] = {"window": window, "together": True, "folder": folder}
    scores = {
        "through training": [sdi.through_training(run, query, beyond=True, **common) for run in runs],
        "TracIn": [sdi.along_training(run, query, checkpoints=settings.checkpoints, **common) for run in runs],
    }
    found = sdi.judge(runs, query, scores, groups=settings.groups, share=settings.share, **common)
    for seed, result in zip(SEEDS, scores["through training"], strict=True):
        horizon = result.info["horizon"]
        print(
            f"seed {seed}: agreement {dict(zip(horizon['windows'], np.round(horizon['agreements'], 3), strict=True))}"
        )
    for name, judged in found.scores.items():
        print(
            f"{name}: whole loss, then steps\n{np.round(judged.by_run, 2)}\nmean {judged.by_run.mean(axis=0).round(2)}"
        )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
