"""One board that a trained model finds hard: its answers step by step, and what training data does to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sdi.inputs.checkpoints import find_checkpoints
from sdi.scores import energy

from .accuracy import answers
from .findings.analysis import Sampled, model_of, sampled
from .findings.horizon import needed
from .findings.table import within
from .influence import Tell, influence
from .settings import Settings
from .split import split

Array = np.ndarray


class Picked(NamedTuple):
    """A board that takes the model as many loop steps as any, the boards it was picked of, and the model's answers."""

    boards: Sampled
    row: int  # of the board, among the test boards
    solved: float  # the share of the test boards
    puzzle: list[int]
    solution: list[int]
    steps: list[int]  # loop steps, from 1
    answers: list[list[int]]  # after each of these steps


def pick_board(settings: Settings, checkpoints: Sequence[Path]) -> Picked:
    """One of the slowest test boards, with the answers of the last checkpoint after some loop steps. Takes seconds.

    settings: those the model was trained with. checkpoints: its files.
    """
    model = model_of(settings, find_checkpoints(checkpoints)[-1].weights())
    boards = sampled(settings, split(settings))
    said = answers(model, boards.test, range(1, settings.loops + 1))
    right = (said == boards.test.solution[:, None]).all(axis=2)
    needs = needed(right)
    row = int(needs.argmax())
    last = max(1, int(needs[row]))
    steps = np.unique([1, 2, max(1, last - 1), last, settings.loops])
    return Picked(
        boards, row, float(right[:, -1].mean()), boards.test.puzzle[row].tolist(), boards.test.solution[row].tolist(),
        steps.tolist(), said[row, steps - 1].tolist(),
    )  # fmt: skip


def trace_board(
    settings: Settings,
    checkpoints: Sequence[Path],
    picked: Picked,
    store: Path,
    tell: Tell = lambda progress: None,
) -> dict[str, Any]:
    """When training data acts on the picked board, and the training board that acts on it most, as plain values.

    settings, checkpoints: as for `pick_board`. picked: its answer. store: a folder for features. tell: called after
    every batch.
    """
    train, test, groups = picked.boards
    found = influence(settings, checkpoints, train, test, store, tell)
    e = energy(found.sdi)
    first = int(np.abs(found.tracin[:, picked.row]).argmax())
    curves = {"this board": e[picked.row]}
    for name, one in (("easy", groups.test[0]), ("hard", groups.test[-1])):
        curves[f"{name} test boards"] = np.median(e[within(test.missing, one)], axis=0)
    return {
        "result": found.result,
        "energy": curves,
        "trajectory": found.sdi[first, picked.row],
        "tracin": float(found.tracin[first, picked.row]),
        "mass": float(np.abs(found.tracin[:, picked.row]).sum()),
        "strongest": {"puzzle": train.puzzle[first].tolist(), "solution": train.solution[first].tolist()},
    }
