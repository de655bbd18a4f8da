"""A task's training as data: random batches, Adam, a rate that rises and falls.

Numbers are float64, so that the small effects of a few examples stand out from rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Int

from sdi.backends import room
from sdi.retraining.optimisers import Adam
from sdi.retraining.training_run import TrainingRun

from .settings import Settings
from .tasks import Batch, task_of

ORDER = 1  # the stream of random numbers that batches are drawn from
SCALE = 0.1  # of the initial matrices


def training_run(settings: Settings, seed: int) -> TrainingRun:
    """The training run of one seed: of the first weights and of the order of batches."""
    every = batches(settings, seed)
    return TrainingRun(
        model=partial(make_model, settings, seed),
        loss=room("fast").token_cross_entropy,
        loop=task_of(settings).model_config(settings).loop(),
        batches=every,
        optimiser=Adam(eps_root=settings.eps_root),
        rate=[rate(settings, k) for k in range(len(every))],
        average=settings.average,
    )


def batches(settings: Settings, seed: int) -> list[Batch]:
    """Random training examples for each update, until training ends or is cut off."""
    every = task_of(settings).train(settings)
    count = len(every["id"])
    if settings.batch > count:
        raise ValueError(f"batch must be at most the number of training examples, {count}, got {settings.batch}")
    rng = np.random.default_rng([seed, ORDER])
    drawn = [rng.choice(count, settings.batch, replace=False) for _ in range(settings.updates)]
    return [take(every, rows) for rows in drawn[: settings.end]]


def make_model(settings: Settings, seed: int) -> Any:
    """The model as training begins."""
    made = room("fast").LoopedTransformer.init(task_of(settings).model_config(settings), seed=seed, scale=SCALE)
    return made.double()


def take(batch: Batch, rows: Int[np.ndarray, "k"]) -> Batch:
    """These examples of a batch."""
    chosen = torch.from_numpy(np.asarray(rows))
    return {key: [x[i] for i in rows] if key == "id" else x[chosen] for key, x in batch.items()}


def rate(settings: Settings, k: int) -> float:
    """Rises, stays, and falls to a tenth over the last updates."""
    left = min(1.0, (settings.updates - k) / max(1, settings.decay))
    return settings.rate * min(1.0, (k + 1) / max(1, settings.warmup)) * (0.1 + 0.9 * left)


def accuracy(settings: Settings, weights: torch.Tensor, placed: Any) -> float:
    """The share of tokens that count in the queries' losses which the weights get right."""
    right = total = 0
    with torch.no_grad(), placed.weights(weights):
        for batch in task_of(settings).queries(settings):
            counts = batch["mask"] > 0
            said = placed.model(batch).argmax(-1)
            right += int((said == batch["targets"])[counts].sum())
            total += int(counts.sum())
    return right / total
