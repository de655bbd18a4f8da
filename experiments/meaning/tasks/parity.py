"""Parity of 2 to `longest` bits; queries are unseen strings of the longest length, of even and of odd parity."""

from __future__ import annotations

import numpy as np
import torch.nn.functional as F

from sdi.inputs.looped_config import LoopedConfig

from ...parity.batches import PAD, make_batch
from ..settings import Settings
from .task import Batch, Task

STRINGS = 0  # the stream of random numbers that strings are drawn from
SHORTEST = 2


def about(settings: Settings) -> str:
    return f"parity of {SHORTEST} to {settings.longest} bits"


def model_config(settings: Settings) -> LoopedConfig:
    return LoopedConfig.parity(d=settings.d, heads=settings.heads, tau=settings.longest, length=settings.longest + 2)


def split(settings: Settings) -> tuple[list[str], list[str]]:
    """(training strings, strings of the longest length that training never sees)."""
    rng = np.random.default_rng([STRINGS])
    every = [f"{c:0{n}b}" for n in range(SHORTEST, settings.longest + 1) for c in range(2**n)]
    long = [s for s in every if len(s) == settings.longest]
    aside = {long[i] for i in rng.choice(len(long), min(len(long) // 2, 2 * settings.queries + 16), replace=False)}
    free = [s for s in every if s not in aside]
    if settings.examples > len(free):
        raise ValueError(f"examples must be at most {len(free)} for {settings.longest} bits, got {settings.examples}")
    chosen = rng.choice(len(free), settings.examples, replace=False)
    return [free[i] for i in np.sort(chosen)], sorted(aside)


def padded(strings: list[str], settings: Settings) -> Batch:
    """A batch padded to one length, so that a string's rows are the same in all batches."""
    batch = make_batch(strings, extra=0)
    for key, fill in (("tokens", PAD), ("targets", 0), ("mask", 0)):
        batch[key] = F.pad(batch[key], (0, settings.longest + 2 - batch[key].shape[1]), value=fill)
    batch["mask"] = batch["mask"].double()
    return batch


def train(settings: Settings) -> Batch:
    return padded(split(settings)[0], settings)


def queries(settings: Settings) -> list[Batch]:
    _, aside = split(settings)
    by_parity = [[s for s in aside if s.count("1") % 2 == p][: settings.queries] for p in (0, 1)]
    return [padded(strings, settings) for strings in by_parity]


TASK = Task(about, model_config, train, queries)
