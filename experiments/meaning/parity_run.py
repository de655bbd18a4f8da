"""A parity model's training as data: strings of 2 to `longest` bits in random batches; Adam, warm-up and decay.

Numbers are float64, so that the small effects of a few strings stand out from rounding.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.retraining.optimisers import Adam
from sdi.retraining.training_run import TrainingRun

from ..parity.batches import PAD, loss, make_batch
from .settings import Settings

STRINGS, ORDER, QUERIES = range(3)  # streams of random numbers
SHORTEST = 2
SCALE = 0.1  # of the initial matrices


def model_config(settings: Settings) -> LoopedConfig:
    return LoopedConfig.parity(d=settings.d, heads=settings.heads, tau=settings.longest, length=settings.longest + 2)


def make_model(settings: Settings, seed: int) -> Any:
    """The model as training begins."""
    made = room("fast").LoopedTransformer.init(model_config(settings), seed=seed, scale=SCALE)
    return made.double()


def split(settings: Settings) -> tuple[list[str], list[str]]:
    """(training strings, strings of the longest length that training never sees), the same for all seeds."""
    rng = np.random.default_rng([STRINGS])
    every = [f"{c:0{n}b}" for n in range(SHORTEST, settings.longest + 1) for c in range(2**n)]
    long = [s for s in every if len(s) == settings.longest]
    aside = {long[i] for i in rng.choice(len(long), min(len(long) // 2, 2 * settings.queries + 16), replace=False)}
    free = [s for s in every if s not in aside]
    if settings.strings > len(free):
        raise ValueError(f"strings must be at most {len(free)} for {settings.longest} bits, got {settings.strings}")
    chosen = rng.choice(len(free), settings.strings, replace=False)
    return [free[i] for i in np.sort(chosen)], sorted(aside)


def padded(strings: list[str], settings: Settings) -> dict[str, Any]:
    """A batch padded to one length, so that a string's rows are the same in all batches."""
    batch = make_batch(strings, extra=0)
    for key, fill in (("tokens", PAD), ("targets", 0), ("mask", 0)):
        batch[key] = F.pad(batch[key], (0, settings.longest + 2 - batch[key].shape[1]), value=fill)
    batch["mask"] = batch["mask"].double()
    return batch


def rate(settings: Settings, k: int) -> float:
    """Rises, stays, and falls to a tenth over the last updates."""
    left = min(1.0, (settings.updates - k) / max(1, settings.decay))
    return settings.rate * min(1.0, (k + 1) / max(1, settings.warmup)) * (0.1 + 0.9 * left)


def parity_run(settings: Settings, seed: int) -> TrainingRun:
    """The training run of one seed: of the first weights and of the order of batches."""
    strings, _ = split(settings)
    rng = np.random.default_rng([seed, ORDER])
    drawn = [rng.choice(len(strings), settings.batch, replace=False) for _ in range(settings.updates)]
    return TrainingRun(
        model=partial(make_model, settings, seed),
        loss=loss,
        loop=model_config(settings).loop(),
        batches=[padded([strings[i] for i in rows], settings) for rows in drawn],
        optimiser=Adam(eps_root=settings.eps_root),
        rate=[rate(settings, k) for k in range(settings.updates)],
    )


def query_batches(settings: Settings) -> list[dict[str, Any]]:
    """Two batches of unseen strings of the longest length: of even parity, and of odd."""
    _, aside = split(settings)
    by_parity = [[s for s in aside if s.count("1") % 2 == p][: settings.queries] for p in (0, 1)]
    return [padded(strings, settings) for strings in by_parity]


def accuracy(settings: Settings, weights: torch.Tensor, placed: Any) -> float:
    """The share of query strings whose parity the weights get right."""
    right = total = 0
    with torch.no_grad(), placed.weights(weights):
        for batch in query_batches(settings):
            said = placed.model(batch)[torch.arange(len(batch["id"])), batch["readout"]].argmax(-1)
            wanted = batch["targets"][torch.arange(len(batch["id"])), batch["readout"]]
            right, total = right + int((said == wanted).sum()), total + len(wanted)
    return right / total
