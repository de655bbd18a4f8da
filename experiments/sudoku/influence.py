"""influence: sampled training boards on test boards and on themselves, over all checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from sdi.backends import room
from sdi.result.result import Result
from sdi.run.attribute import attribute

from .batches import loss, make_loader
from .boards import Boards
from .settings import Settings

Array = np.ndarray
Tell = Callable[[Any], None]
AUDITED = 8  # boards of either side and every checkpoint whose gradients are compared with autograd's


class Influence(NamedTuple):
    """Influence of n training boards on q query boards, rows and columns in the order the boards were given."""

    sdi: Float[Array, "n q tau"]  # summed over checkpoints, each weighted by its rate
    tracin: Float[Array, "n q"]
    result: Result  # the same with labels and standard errors, in the order of its ids


def influence(
    settings: Settings,
    checkpoints: Sequence[Path],
    train: Boards,
    queries: Boards,
    store: Path,
    tell: Tell = lambda progress: None,
) -> Influence:
    """SDI of every training board on every loop step of every query, each checkpoint audited.

    settings: of the model. checkpoints: files. train, queries: boards, each with the labels that its loss is taken of.
    store: a folder for features; boards that it holds are not computed again, so other labels need another one.
    tell: called after every batch.
    """
    model = room("fast").LoopedTransformer(settings.model_config())
    sides = {"train": train, "query": queries}
    loaders: Any = {name: make_loader(side) for name, side in sides.items()}
    common: Any = {
        "loss": loss, "loop": settings.model_config().loop(), "m": settings.m, "spread": False,
        "store": store, "progress": tell, "shard": 64,
    }  # fmt: skip
    some = {name: side.take(np.arange(min(AUDITED, len(side.puzzle)))) for name, side in sides.items()}
    first: Any = {name: make_loader(side) for name, side in some.items()}
    for point in checkpoints:  # `attribute` audits the first batch of a run: so every checkpoint has a run of its own
        attribute(model, checkpoints=[point], **first, **common)
    steps = attribute(model, checkpoints=checkpoints, **loaders, **common)
    return ordered(steps, train.ids(), queries.ids())


def on_test_and_self(
    settings: Settings,
    checkpoints: Sequence[Path],
    train: Boards,
    test: Boards,
    store: Path,
    tell: Tell = lambda progress: None,
) -> tuple[Float[Array, "n q tau"], Float[Array, "n"]]:
    """SDI of training boards on test boards, and TracIn of every training board on itself. Arguments as `influence`."""
    both = Boards(np.concatenate([test.puzzle, train.puzzle]), np.concatenate([test.solution, train.solution]))
    found = influence(settings, checkpoints, train, both, store, tell)
    many = len(test.puzzle)
    return found.sdi[:, :many], found.tracin[:, many:].diagonal().copy()


def ordered(result: Result, train: Sequence[str], queries: Sequence[str]) -> Influence:
    """The scores of a result in the order of these ids, in float64."""
    at = np.ix_([result.position("train", i) for i in train], [result.position("query", i) for i in queries])
    sdi = result.arrays["by_checkpoint"].sum(axis=0, dtype=np.float64)[at]
    tracin = np.asarray(result.tracin_values, dtype=np.float64)[at]
    return Influence(sdi, tracin, result)


def conservation(
    settings: Settings, checkpoint: Path, train: Boards, queries: Boards, most: int = 64
) -> dict[str, float]:
    """The largest |TracIn - sum over steps of SDI| at one checkpoint, with TracIn from gradients summed before.

    The two come from runs of their own, so this is no identity of the code. most: boards of either side.
    """
    model = room("fast").LoopedTransformer(settings.model_config())
    sides = [side.take(np.arange(min(most, len(side.puzzle)))) for side in (train, queries)]
    common: Any = {"loss": loss, "loop": settings.model_config().loop(), "m": settings.m, "spread": False}
    common |= {"checkpoints": [checkpoint], "train": make_loader(sides[0]), "query": make_loader(sides[1])}
    steps, whole = (attribute(model, mode=mode, **common) for mode in ("query", "tracin"))
    summed = steps.sdi_values.sum(axis=-1, dtype=np.float64)
    gap = np.abs(summed - whole.tracin_values)
    return {"largest": float(gap.max()), "of": float(np.abs(whole.tracin_values).max())}
