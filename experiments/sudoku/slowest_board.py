"""look: one board that a trained model finds hard, its answers step by step, and what training data does to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdi.inputs.checkpoints import find_checkpoints
from sdi.scores import energy

from .accuracy import answers
from .findings.analysis import model_of, sampled
from .findings.horizon import needed
from .findings.table import within
from .influence import Tell, influence
from .settings import Settings
from .split import split


def look(settings: Settings, checkpoints: Sequence[Path], store: Path, tell: Tell = lambda progress: None) -> Any:
    """What the demo shows of a trained model, as plain values and arrays.

    settings: those it was trained with. checkpoints: its files. store: a folder for features. tell: called after every
    batch.
    """
    model = model_of(settings, find_checkpoints(checkpoints)[-1].weights())
    train, test, groups = sampled(settings, split(settings))
    said = answers(model, test, range(1, settings.loops + 1))
    right = (said == test.solution[:, None]).all(axis=2)
    slowest = int(needed(right).argmax())
    found = influence(settings, checkpoints, train, test, store, tell)
    e = energy(found.sdi)
    first = int(np.abs(found.tracin[:, slowest]).argmax())
    steps = np.unique([1, 2, max(1, needed(right)[slowest] - 1), max(1, needed(right)[slowest]), settings.loops])
    sides = {"easy": groups.test[0], "hard": groups.test[-1]}
    curves = {"this board": e[slowest]}
    for name, one in sides.items():
        curves[f"{name} test boards"] = np.median(e[within(test.missing, one)], axis=0)
    return {
        "result": found.result,
        "train": train,
        "test": test,
        "solved": float(right[:, -1].mean()),
        "puzzle": test.puzzle[slowest].tolist(),
        "solution": test.solution[slowest].tolist(),
        "steps": steps.tolist(),
        "answers": said[slowest, steps - 1].tolist(),
        "energy": curves,
        "trajectory": found.sdi[first, slowest],
        "tracin": float(found.tracin[first, slowest]),
        "mass": float(np.abs(found.tracin[:, slowest]).sum()),
        "strongest": {"puzzle": train.puzzle[first].tolist(), "solution": train.solution[first].tolist()},
    }
