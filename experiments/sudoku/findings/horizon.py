"""horizon: for how many loop steps training data moves a board, against the loop steps the board really needs.

Two ways to stop early are compared with looping to the end. Stopping at the influence horizon needs the solution, for
the loss behind the influence is of the right answer: it says what could be had, not how to have it. Stopping when the
answer no longer changes needs nothing but the model.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from sdi.scores import horizon

from ...base import wilson
from .statistics import quartiles, spearman

Array = np.ndarray
LEVELS = (0.5, 0.9, 0.99)
PATIENCE = 2  # loop steps with the same answer


def needed(right: Bool[Array, "n t"]) -> Int[Array, "n"]:
    """The loop steps a board needs: the first from which it is solved to the end; 0 if it is not solved at the end.

    >>> needed(np.array([[False, True, False, True, True], [True, True, True, True, False]])).tolist()
    [4, 0]
    """
    steps = right.shape[1]
    wrong = np.where(right, 0, np.arange(1, steps + 1)).max(axis=1)
    return np.where(wrong == steps, 0, wrong + 1)


def settled(answers: Int[Array, "n t cells"], patience: int = PATIENCE) -> Int[Array, "n"]:
    """The first loop step whose answer was the same for `patience` steps, or the last; steps from 1.

    >>> settled(np.array([[[1], [2], [2], [3]], [[1], [1], [2], [2]]]), patience=2).tolist()
    [3, 2]
    """
    steps = answers.shape[1]
    same = (answers[:, 1:] == answers[:, :-1]).all(axis=2)  # same[:, k]: step k + 2 says what step k + 1 said
    run = np.ones((len(answers), steps), dtype=int)
    for t in range(1, steps):
        run[:, t] = np.where(same[:, t - 1], run[:, t - 1] + 1, 1)
    enough = run >= patience
    return np.where(enough.any(axis=1), enough.argmax(axis=1) + 1, steps)


def stopping(
    energy: Float[Array, "n tau"], answers: Int[Array, "n t cells"], solution: Int[Array, "n cells"]
) -> dict[str, Any]:
    """Influence horizons of boards beside the loop steps they need, and the accuracy and cost of ways to stop.

    energy: SDI energy per loop step. answers: of the model after each loop step, at least as many as energy has.
    """
    tau = energy.shape[1]
    right = (answers == solution[:, None]).all(axis=2)
    needs = needed(right)
    known = needs > 0
    rows = np.arange(len(right))
    ways: dict[str, Array] = {f"after all {tau}": np.full(len(right), tau)}
    out: dict[str, Any] = {"needs": quartiles(needs[known]), "never solved": int((~known).sum()), "horizon": {}}
    for level in LEVELS:
        h = horizon(energy, level)
        ways[f"at the horizon of {level:.0%}"] = np.clip(np.nan_to_num(h, nan=tau), 1, right.shape[1]).astype(int)
        out["horizon"][f"{level:g}"] = {
            **quartiles(h[~np.isnan(h)]),
            "with needs": spearman(h[known], needs[known]),
            "before it is solved": float((h[known] < needs[known]).mean()) if known.any() else None,
        }
    ways[f"when {PATIENCE} answers agree"] = settled(answers)
    ways["as soon as it is solved (needs the solution)"] = np.where(known, needs, right.shape[1])
    out["ways"] = {
        name: {"solved": wilson(right[rows, stop - 1]), "loops": float(stop.mean())} for name, stop in ways.items()
    }
    return out
