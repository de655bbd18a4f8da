"""Controls that could refute the story: weights that never learned, labels that cannot be learned, blanks that moved.

- untrained: the same table for weights before training. What it shows as well is no sign of learning.
- permuted: every board, of both sides, has the solution of another one with as many blanks; the trained model stays.
  What is left of the table is due to the number of blanks, not to solving.
- moved: test boards with the same solutions and other blanks. If influence followed the solutions, a board and its
  moved twin would be influenced by the same training boards; if it follows the work, they would not.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sdi.scores import energy, late_mass

from ..boards import Boards, blanked, grid_of, rounds
from ..influence import Tell, influence, on_test_and_self
from ..settings import Settings
from ..split import LABELS, MOVED, permuted_within
from .analysis import Sampled
from .statistics import paired, quartiles, spearman
from .table import energy_curves, table

Array = np.ndarray


def of_weights(
    settings: Settings, boards: Sampled, checkpoints: Sequence[Path], store: Path, tell: Tell = lambda progress: None
) -> dict[str, Any]:
    """The table and Panel B of other weights, or of other labels: no accuracies."""
    train, test, groups = boards
    sdi, own = on_test_and_self(settings, checkpoints, train, test, store, tell)
    return {
        "panel B": energy_curves(sdi, test.missing, groups.test),
        "table": table(sdi, own, train.missing, test.missing, groups),
    }


def permuted(settings: Settings, boards: Sampled) -> Sampled:
    """Boards whose solutions are those of others with as many blanks."""
    rng = np.random.default_rng([settings.seed, LABELS, 1])
    train, test = (
        Boards(side.puzzle, side.solution[permuted_within(side.missing, rng)]) for side in (boards.train, boards.test)
    )
    return Sampled(train, test, boards.groups)


def moved(settings: Settings, test: Boards) -> Boards:
    """Boards with the same solutions, blanked in another order."""
    rng = np.random.default_rng([settings.seed, MOVED])
    return Boards(blanked(grid_of(settings.size), test.solution, rng), test.solution)


def of_moved(
    settings: Settings, boards: Sampled, checkpoints: Sequence[Path], store: Path, tell: Tell = lambda progress: None
) -> dict[str, Any]:
    """Test boards beside their moved twins: who influences them, how late, and what goes with the difference."""
    train, test, _ = boards
    twins = moved(settings, test)
    first = influence(settings, checkpoints, train, test, store, tell)
    second = influence(settings, checkpoints, train, twins, store, tell)
    late = [late_mass(energy(x.sdi)) for x in (first, second)]
    depth = [rounds(side.puzzle, settings.size) for side in (test, twins)]
    strangers = strangers_of(twins.missing, np.random.default_rng([settings.seed, MOVED, 1]))
    alike = correlations(first.tracin, second.tracin)
    unlike = correlations(first.tracin, second.tracin[:, strangers])
    cells = (test.blank & twins.blank).sum(axis=1) / (test.blank | twins.blank).sum(axis=1)
    return {
        "blanks": {"before": quartiles(test.missing), "after": quartiles(twins.missing)},
        "blanks in common": quartiles(cells),
        "tracin, a board and its twin": quartiles(alike),
        "tracin, a board and another's twin": quartiles(unlike),
        "twin against another's twin": paired(alike, unlike),
        "late mass": {"before": quartiles(late[0]), "after": quartiles(late[1])},
        "late mass, a board with its twin": spearman(*late),
        "late mass with blanks, differences": spearman(late[1] - late[0], (twins.missing - test.missing).astype(float)),
        "late mass with rounds, differences": spearman(late[1] - late[0], (depth[1] - depth[0]).astype(float)),
    }


def strangers_of(missing: Int[Array, "q"], rng: np.random.Generator) -> Int[Array, "q"]:
    """For each board, another one with as many blanks, or with nearly as many if it has no equal."""
    order = np.lexsort((rng.random(len(missing)), missing))
    out = np.empty(len(missing), dtype=int)
    out[order] = np.roll(order, 1)
    return out


def correlations(x: Float[Array, "n q"], y: Float[Array, "n q"]) -> Float[Array, "q"]:
    """Pearson's correlation of each column of x with the same column of y, over training boards.

    >>> correlations(np.array([[1.0], [2.0], [3.0]]), np.array([[2.0], [4.0], [6.0]])).round(6)
    array([1.])
    """
    a, b = x - x.mean(axis=0), y - y.mean(axis=0)
    size = np.sqrt((a**2).sum(axis=0) * (b**2).sum(axis=0))
    return np.asarray(np.divide((a * b).sum(axis=0), size, out=np.zeros(x.shape[1]), where=size > 0))
