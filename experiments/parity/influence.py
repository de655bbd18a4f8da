"""influence: sampled training strings on test strings, on themselves and on the probes, over all checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.result.result import Result
from sdi.run.attribute import attribute

from .batches import loss, make_loader
from .settings import Settings
from .strings import labels_of, parity_of


def influence(
    settings: Settings,
    checkpoints: Sequence[Path],
    train: Sequence[str],
    queries: Sequence[str],
    store: Path,
    trained_on: bool = False,
    tell: Callable[[Any], None] = lambda progress: None,
) -> Result:
    """SDI of every training string on every loop step of every query, each checkpoint audited.

    trained_on: the queries are training strings, so their labels are those of training.
    """
    model = room("fast").LoopedTransformer(settings.model_config())
    said = labels_of(settings, queries) if trained_on else parity_of(queries)
    loaders = {"train": make_loader(train, labels_of(settings, train)), "query": make_loader(queries, said)}
    common: Any = {
        "loss": loss, "loop": settings.model_config().loop(), "m": settings.m, "spread": False,
        "store": store, "progress": tell,
        "shard": 64,  # with 42 steps, an example that waits to be written weighs 1.5 MB
    }  # fmt: skip
    for point in checkpoints:  # `attribute` audits the first batch of a run: so every checkpoint has a run of its own
        attribute(model, checkpoints=[point], train=loaders["train"][:1], query=loaders["query"][:1], **common)
    return attribute(model, checkpoints=checkpoints, train=loaders["train"], query=loaders["query"], **common)


def zero_after_read_out(result: Result) -> bool:
    """Whether every step after a query's read-out has influence exactly zero, and some step before has not."""
    sdi = result.sdi_values
    steps = np.asarray(result.labels["step"])
    n = np.array([len(str(q)) for q in result.labels["query"]])
    after = steps[None] > n[:, None]
    assert after.any(axis=1).all(), "every query loops beyond its read-out"
    return bool((sdi[:, after] == 0).all() and (sdi[:, ~after] != 0).any())
