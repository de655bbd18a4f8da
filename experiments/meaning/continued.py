"""continue_pretrained: is the period that TracIn's steps show on 0101... in the derivative through training, too?

The parity model that ships with the library is trained on for a few updates, on strings of its own training. Summed
over these strings, each score is a curve over the loop steps of a probe: of 0101..., whose running parity has period 4,
and of the same bits in another order, whose has none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import load_file

from sdi.backends import room
from sdi.result.result import Result
from sdi.retraining.along_training import along_training
from sdi.retraining.optimisers import AdamW
from sdi.retraining.through_training import through_training
from sdi.retraining.training_run import TrainingRun

from ..base import kept, make_folder
from ..parity.batches import loss, make_batch
from ..parity.periods import autocorrelation, find_period
from ..parity.pretrained_model import pretrained
from ..parity.readouts import plain
from ..parity.settings import SHORTEST
from ..parity.strings import MIXED, probe, training_strings
from .settings import Continued

PATTERNS = ("01", MIXED)
STREAM = 3  # of random numbers
SCORES = ("through training", "TracIn split over steps", "as met")


def continue_pretrained(folder: Path, settings: Continued, say: Callable[[str], None]) -> dict[str, Any]:
    """For every score and probe: the curve over loop steps, its autocorrelation and its period.

    folder: where it is kept. settings: how training goes on. say: called with lines of progress.
    """
    make_folder(folder)
    return kept(folder / "continued.json", settings.to_dict(), lambda: _make(settings, say))


def continued_run(settings: Continued) -> TrainingRun:
    """The training run: lengths spread over those that the model was trained on, the longest in every batch."""
    of, checkpoints = pretrained()
    rng = np.random.default_rng([of.seed, STREAM])
    each = settings.batch // settings.lengths
    batches = []
    for _ in range(settings.updates):
        others = rng.choice(np.arange(SHORTEST, of.longest), settings.lengths - 1, replace=False)
        strings: list[str] = []
        for n in (of.longest, *others.tolist()):
            pool = training_strings(of, n)
            strings += [pool[i] for i in rng.choice(len(pool), min(each, len(pool)), replace=False)]
        batches.append(padded(strings, of.longest))
    return TrainingRun(
        model=partial(_model, str(checkpoints[-1])), loss=loss, loop=of.model_config().loop(), batches=batches,
        optimiser=AdamW(weight_decay=of.decay), rate=settings.rate,
    )  # fmt: skip


def padded(strings: list[str], longest: int) -> dict[str, Any]:
    """A batch without steps after read-out, padded to one length: a string's rows are the same in all batches."""
    import torch.nn.functional as F

    batch = make_batch(strings, extra=0)
    missing = longest + 2 - batch["tokens"].shape[1]
    for key, fill in (("tokens", 3), ("targets", 0), ("mask", 0)):
        batch[key] = F.pad(batch[key], (0, missing), value=fill)
    batch["mask"] = batch["mask"].double()
    return batch


def _model(checkpoint: str) -> Any:
    of, _ = pretrained()
    weights = {name: w.double() for name, w in load_file(checkpoint).items()}
    return room("fast").LoopedTransformer(of.model_config(), weights).double()


def _make(settings: Continued, say: Callable[[str], None]) -> dict[str, Any]:
    run = continued_run(settings)
    queries = [padded([probe(settings.bits, pattern)], settings.bits) for pattern in PATTERNS]

    def tell(progress: Any) -> None:
        say(f"shipped parity model, trained on: {progress}")

    common: dict[str, Any] = {"window": settings.window, "progress": tell}
    derivative = through_training(run, queries, beyond=True, **common)
    results: dict[str, Result] = {
        SCORES[0]: derivative,
        SCORES[1]: along_training(run, queries, checkpoints=settings.window, **common),
        SCORES[2]: along_training(run, queries, checkpoints=None, **common),
    }
    curves = {
        name: {pattern: _curve(result, pattern, settings.bits) for pattern in PATTERNS}
        for name, result in results.items()
    }
    return {
        "horizon": derivative.info["horizon"],
        "strings": len(run.ids),
        "curves": {name: {p: plain(c) for p, c in of.items()} for name, of in curves.items()},
        "acf": {name: {p: plain(autocorrelation(c)) for p, c in of.items()} for name, of in curves.items()},
        "periods": {name: {p: plain(find_period(c)) for p, c in of.items()} for name, of in curves.items()},
        "alike": {
            pattern: {
                name: float(np.corrcoef(curves[SCORES[0]][pattern], curves[name][pattern])[0, 1]) for name in SCORES[1:]
            }
            for pattern in PATTERNS
        },
    }


def _curve(result: Result, pattern: str, bits: int) -> np.ndarray:
    """Influence summed over training strings, by loop step of one probe."""
    column = result.position("query", probe(bits, pattern))
    return np.asarray(result.sdi_values[:, column, :bits].sum(axis=0))
