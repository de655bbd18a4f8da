"""analyse: one trained model -> accuracy by loop steps, influence, the table, horizons, predictors, as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sdi.backends import room
from sdi.inputs.checkpoints import find_checkpoints
from sdi.scores import cross_mass, energy, late_mass

from ...base import wilson
from ..accuracy import answers
from ..batches import losses
from ..boards import Boards, rounds
from ..influence import Tell, conservation, on_test_and_self
from ..settings import Settings
from ..split import SAMPLE, Split, stratified
from .horizon import needed, stopping
from .statistics import better_predictor, matched_pairs, partial_spearman, spearman
from .table import Groups, energy_curves, table, within

Array = np.ndarray


class Sampled(NamedTuple):
    """The boards whose influence is computed, and the groups they are in."""

    train: Boards
    test: Boards
    groups: Groups


def sampled(settings: Settings, boards: Split) -> Sampled:
    """Training and test boards, spread evenly over the numbers of blanks."""
    some = []
    for k, (side, count) in enumerate(zip(boards, (settings.sample, settings.queries), strict=True)):
        rng = np.random.default_rng([settings.seed, SAMPLE, k])
        some.append(side.take(stratified(side.missing, min(count, len(side.puzzle)), rng)))
    return Sampled(some[0], some[1], Groups.of(settings.size, some[0].missing, some[1].missing))


def analyse(
    settings: Settings,
    boards: Split,
    checkpoints: Sequence[Path],
    store: Path,
    tell: Tell = lambda progress: None,
) -> dict[str, Any]:
    """All that is said of one trained model.

    settings: those it was trained with. boards: its training and test boards. checkpoints: its files, in order.
    store: a folder for features. tell: called after every batch.
    """
    points = find_checkpoints(checkpoints)
    models = [model_of(settings, point.weights()) for point in points]
    etas = np.array([point.eta for point in points], dtype=float)
    train, test, groups = sampled(settings, boards)
    sdi, own = on_test_and_self(settings, checkpoints, train, test, store, tell)
    said = answers(models[-1], test, range(1, settings.most_loops + 1))
    seen = np.stack([losses(model, train) for model in models])
    return {
        "checkpoints": [
            {"name": p.path.stem, "eta": p.eta, "solved": solved, "loss": loss}
            for p, solved, loss in zip(points, solved_by(models, boards.test, settings), seen.mean(1), strict=True)
        ],
        "panel A": panel_a(models[-1], boards.test, settings, groups),
        "panel B": energy_curves(sdi, test.missing, groups.test),
        "table": table(sdi, own, train.missing, test.missing, groups),
        "conservation": conservation(settings, checkpoints[-1], train, test),
        "horizon": stopping(energy(sdi), said, test.solution),
        "predictors": predictors(settings, sdi, test, said),
        "at equal loss": at_equal_loss(own, sdi, train, etas @ seen / etas.sum(), groups),
    }


def model_of(settings: Settings, weights: dict[str, Any]) -> Any:
    """The looped transformer with these weights."""
    model = room("fast").LoopedTransformer(settings.model_config())
    model.load_state_dict({name: w.float() for name, w in weights.items()})
    return model


def solved_by(models: Sequence[Any], boards: Boards, settings: Settings, most: int = 256) -> list[float]:
    """The share of (some) boards that each model solves after the mean number of loop steps."""
    some = boards.take(np.arange(min(most, len(boards.puzzle))))
    return [float((answers(m, some, [settings.loops])[:, 0] == some.solution).all(axis=1).mean()) for m in models]


def panel_a(model: Any, boards: Boards, settings: Settings, groups: Groups) -> dict[str, Any]:
    """The share of boards solved after every number of loop steps, with 95% intervals, by difficulty."""
    right = (answers(model, boards, range(1, settings.most_loops + 1)) == boards.solution[:, None]).all(axis=2)
    some = {"all": np.ones(len(right), dtype=bool)}
    some |= {f"{low}-{high}": within(boards.missing, (low, high)) for low, high in groups.test}
    return {
        name: {"boards": int(rows.sum()), "curve": [wilson(column) for column in right[rows].T]}
        for name, rows in some.items()
    }


def predictors(settings: Settings, sdi: Float[Array, "n q tau"], test: Boards, said: Array) -> dict[str, Any]:
    """Which difficulty goes with late mass: missing cells, rounds of hidden singles, or the loop steps needed."""
    late = late_mass(energy(sdi))
    depth = rounds(test.puzzle, settings.size)
    needs = needed((said == test.solution[:, None]).all(axis=2))
    known = needs > 0
    return {
        "late mass": better_predictor(test.missing.astype(float), depth.astype(float), late),
        "late mass with loops needed": spearman(late[known], needs[known]),
        "loops needed": better_predictor(
            test.missing[known].astype(float), depth[known].astype(float), needs[known].astype(float)
        ),
        "rounds": {str(k): int((depth == k).sum()) for k in np.unique(depth)},
        "late mass by rounds": {str(k): float(late[depth == k].mean()) for k in np.unique(depth)},
        "loops needed by rounds": {str(k): float(needs[known & (depth == k)].mean()) for k in np.unique(depth[known])},
    }


def at_equal_loss(
    own: Float[Array, "n"], sdi: Float[Array, "n q tau"], train: Boards, loss: Float[Array, "n"], groups: Groups
) -> dict[str, Any]:
    """What is left of "hard boards are memorised more" when the loss is held equal.

    loss: of the training boards, averaged over checkpoints by their rates, as the influence is summed.
    """
    missing = train.missing.astype(float)
    mass = cross_mass(sdi.sum(axis=-1))
    hard, easy = (within(train.missing, groups.train[k]) for k in (-1, 0))
    return {
        "loss with blanks": spearman(loss, missing),
        "self with loss": spearman(own, loss),
        "self with blanks": spearman(own, missing),
        "self with blanks, loss equal": partial_spearman(own, missing, loss),
        "C with blanks": spearman(mass, missing),
        "C with blanks, loss equal": partial_spearman(mass, missing, loss),
        "all pairs": {"ratio": _ratio(own[hard], own[easy]), "loss": _ratio(loss[hard], loss[easy])},
        "matched": matched_pairs(own, hard, easy, loss),
    }


def _ratio(x: Array, y: Array) -> float | None:
    """Of geometric means."""
    return float(np.exp(np.log(x).mean() - np.log(y).mean())) if len(x) and len(y) else None
