"""noise_of_retraining: what retraining changes though nothing was left out: rounding, carried through training.

The examples of every batch in the window stand in another order. Sums of the same numbers are rounded otherwise, and
training does with that what it does with any small push. An effect that is not larger than this, or than the rounding
of the loss itself, is noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.backends import room
from sdi.inputs.batches import Examples
from sdi.retraining.retrain import carried_out

from .settings import Settings
from .training import batches, training_run


def noise_of_retraining(
    settings: Settings,
    seed: int,
    replay: Any,
    queries: Sequence[Examples],
    folder: Path,
    tell: Callable[[Any], None],
) -> Float[np.ndarray, "q slots"]:
    """How far each slot's step-swap effect is from zero when every batch of the window is turned round, and no less
    than rounding.

    settings, seed: of the run. replay: the run, carried out. queries: batches of them, each of which is one query.
    folder: keeps the run in the other order. tell: called with the progress.
    """
    run = training_run(settings, seed)
    turned = batches(settings, seed)
    for k in range(replay.first, run.updates):
        turned[k] = {key: x[::-1] if key == "id" else x.flip(0) for key, x in turned[k].items()}
    other = carried_out(replace(run, batches=turned), replay.first, folder, tell)
    training = room("fast.training")
    swapped = training.swap_effects(run, replay.placed, replay.weights, other.weights, queries, together=True)
    rounding = np.finfo(np.float64).eps * np.abs(swapped.base)
    return np.maximum(np.abs(swapped.by_slot), rounding[:, None])
