"""remove_strings: which parity strings made the late loop steps, and what breaks without them.

By the derivative through training, the strings with the most influence on the later half of the queries' steps, on the
earlier half, and on the whole loss are left out of the window, for real; beside them random ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdi.result.result import Result
from sdi.retraining.change import random_groups
from sdi.retraining.retrain import retrain

from ..base import kept
from .one_task import derivative_of
from .settings import Settings
from .tasks import Batch, task_of
from .tasks.parity import SHORTEST, padded
from .training import training_run

KINDS = ("late steps", "early steps", "whole loss")
SHARES = (0.01, 0.05)  # of the training strings that are left out


def remove_strings(
    folder: Path, settings: Settings, seeds: Sequence[int], window: int, say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """For every seed: the strings that are strongest by each kind of influence, and what leaving them out does.

    folder: of the task, as `judge_task` left it. settings: of parity. window: updates that they are left out of.
    say: called with lines of progress.
    """
    found = []
    for seed in seeds:
        result = derivative_of(folder, seed)

        def make(seed: int = seed, result: Result = result) -> dict[str, Any]:
            return _one_seed(folder, settings, seed, window, result, say)

        of = {**settings.to_dict(), "seed": seed, "window": window}
        found.append({"seed": seed, **kept(folder / f"seed-{seed}" / "removal.json", of, make)})
    return found


def strengths(result: Result) -> dict[str, np.ndarray]:
    """Each training example's influence on the mean query: on its later steps, its earlier ones, and its loss."""
    steps = result.sdi_values.mean(axis=1)
    half = steps.shape[1] // 2
    return dict(zip(KINDS, (steps[:, half:].sum(1), steps[:, :half].sum(1), result.tracin_values.mean(1)), strict=True))


def _one_seed(
    folder: Path, settings: Settings, seed: int, window: int, result: Result, say: Callable[[str], None]
) -> dict[str, Any]:
    run = training_run(settings, seed)
    ids = [str(i) for i in result.labels["train"]]
    by = strengths(result)
    groups, names = [], []
    for part in SHARES:
        size = max(1, round(part * len(ids)))
        for kind in KINDS:
            groups.append(tuple(ids[i] for i in np.argsort(-by[kind], kind="stable")[:size]))
            names.append((part, kind))
        groups += random_groups(sorted(ids), settings.chance, part, seed=1)
        names += [(part, "random")] * settings.chance
    lengths = range(SHORTEST, settings.longest + 1)
    asked = [*task_of(settings).queries(settings), *(all_of_length(n, settings) for n in lengths)]
    effects = retrain(
        run, asked, groups, window=window, together=True, folder=folder / "runs",
        progress=lambda progress: say(f"parity, seed {seed}, removal: {progress}"),
    )  # fmt: skip
    queries = len(asked) - len(lengths)
    steps = effects.steps[:, :queries].mean(axis=1)
    half = settings.longest // 2
    rows = [
        {
            "share": part,
            "kind": kind,
            "strings": list(group),
            "whole": float(effects.whole[r, :queries].mean()),
            "late": float(steps[r, half:].sum()),
            "early": float(steps[r, :half].sum()),
            "by length": effects.whole[r, queries:].tolist(),
        }
        for r, ((part, kind), group) in enumerate(zip(names, groups, strict=True))
    ]
    late = np.abs(by["late steps"])
    return {
        "rows": rows,
        "lengths": list(lengths),
        "losses by length": effects.base[queries:].tolist(),
        "late mass by length": [float(late[[len(i) == n for i in ids]].mean() / late.mean()) for n in lengths],
        "strings by length": [sum(len(i) == n for i in ids) for n in lengths],
        "agreement": {kind: _rank(by[kind], by["whole loss"]) for kind in KINDS[:2]},
    }


def all_of_length(n: int, settings: Settings) -> Batch:
    """All strings of n bits, with ids of their own: some of them are queries, too."""
    batch = padded([f"{code:0{n}b}" for code in range(2**n)], settings)
    return {**batch, "id": [f"{i} of all" for i in batch["id"]]}


def _rank(a: np.ndarray, b: np.ndarray) -> float:
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)
