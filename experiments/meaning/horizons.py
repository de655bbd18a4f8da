"""smooth_horizons: how far back the derivative through training predicts, for variants of one training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sdi.result.result import LOSS
from sdi.retraining.through_training import through_training

from ..base import kept, make_folder
from .settings import Settings
from .tasks import task_of
from .training import training_run

PROBES = 4  # small real changes in each window, as `through_training` makes by itself


def smooth_horizons(
    folder: Path, variants: Mapping[str, Settings], seeds: Sequence[int], say: Callable[[str], None]
) -> list[dict[str, Any]]:
    """For every variant and seed: windows, agreements, growth of adjoints, smooth horizon, cost, query losses.

    folder: where each is kept. variants: by name; `window` is the longest that is tried. say: lines of progress.
    """
    make_folder(folder)
    found = []
    for place, (name, settings) in enumerate(variants.items()):
        for seed in seeds:
            of = {**settings.to_dict(), "seed": seed, "probes": PROBES}

            def make(settings: Settings = settings, seed: int = seed, name: str = name) -> dict[str, Any]:
                return _measure(settings, seed, lambda progress: say(f"horizon, {name}, seed {seed}: {progress}"))

            found.append({"name": name, "seed": seed, **kept(folder / f"{place}-{seed}.json", of, make)})
    return found


def _measure(settings: Settings, seed: int, tell: Callable[[Any], None]) -> dict[str, Any]:
    run = training_run(settings, seed)
    queries = task_of(settings).queries(settings)
    result = through_training(
        run, queries, window=min(settings.window, run.updates), together=True, probes=PROBES, beyond=True,
        progress=tell,
    )  # fmt: skip
    losses = result.arrays[LOSS][0]
    return {"horizon": result.info["horizon"], "cost": result.info["cost"], "losses": losses.tolist()}
