"""Step-swap LDS of the derivative for each seed of the parity task, step by step, and how well it agrees.

    python docs/results/meaning/by_seed.py FOLDER WINDOW

FOLDER keeps the runs. 40 random groups of 5%, drawn apart from those of the judgement; a mean over the two queries.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

import sdi
from sdi.backends import room


def main(folder: str, window: int) -> None:
    torch.set_num_threads(1)
    settings: Any = room("experiments.meaning.settings").PARITY
    training, tasks = room("experiments.meaning.training"), room("experiments.meaning.tasks")
    for seed in (0, 1, 2):
        run, query = training.training_run(settings, seed), tasks.task_of(settings).queries(settings)
        common: dict[str, Any] = {"window": window, "together": True, "folder": folder}
        result = sdi.through_training(run, query, beyond=True, **common)
        groups = sdi.random_groups(run.ids, settings.groups, settings.share)
        real = sdi.retrain(run, query, groups, **common).steps
        place = {name: k for k, name in enumerate(result.labels["train"])}
        said = np.stack([result.sdi_values[[place[i] for i in group]].sum(axis=0) for group in groups])
        lds = [
            np.mean([spearmanr(said[:, j, t], real[:, j, t])[0] for j in range(real.shape[1])])
            for t in range(real.shape[2])
        ]
        agreements = [round(a, 4) for a in result.info["horizon"]["agreements"]]
        print(f"seed {seed}, {window} updates: agreement {agreements}, LDS {np.round(lds, 3)}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
