"""experiment: train the seeds, analyse them, run the controls, write the summary. Every part goes on where it was.

FOLDER/seed-0/...      training: settings, state, checkpoints; analysis.json, probes.safetensors
FOLDER/shuffled/...    the same, trained on a coin's labels
FOLDER/untrained/...   the same, of weights that were never trained
FOLDER/tests.json      influence on the test set and on the training set itself, of the best seed
FOLDER/README.md summary.json figure.png controls.png training.png
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdi.backends import room
from sdi.files import write_whole
from sdi.run.one_thread import one_thread

from ..base import check_seeds, checkpoints_in, kept, made_of, make_folder, telling, write_json, write_untrained
from .analysis import analyse, influence_on_tests
from .figure import draw
from .report import report
from .settings import SHORTEST, Settings
from .training import Progress, Trainer, train

Say = Callable[[str], None]


def run_experiment(
    folder: Path, settings: Settings, seeds: Sequence[int], say: Say = lambda words: None, command: str = ""
) -> dict[str, Any]:
    """Train all seeds, analyse them, run the controls and write the report. Returns what summary.json holds.

    folder: where everything is kept; a stopped run goes on from it. settings, seeds: of the models to train.
    say: called with lines of progress. command: the command line, for the report.
    """
    check_seeds(seeds)
    make_folder(folder)
    with one_thread():
        runs = {seed: _trained(folder / f"seed-{seed}", replace(settings, seed=seed), say) for seed in seeds}
        main = max(seeds, key=lambda seed: runs[seed]["accuracy"][str(settings.test)])
        mine = replace(settings, seed=main)
        patience = shuffled_patience(mine, runs[main]["training"]["steps"])
        shuffled = replace(mine, labels="shuffled", patience=patience)
        controls = {
            "untrained": _untrained(folder / "untrained", mine, say),
            "shuffled labels": _trained(folder / "shuffled", shuffled, say),
        }
        tests = _tests(folder, mine, say)
    for store in folder.glob("*/store*"):  # gigabytes at full size, and everything asked of them was answered
        shutil.rmtree(store)
    summary = {
        "command": command,
        "settings": settings.to_dict(),
        "seeds": {str(seed): run for seed, run in runs.items()},
        "main": main,
        "controls": controls,
        "tests": tests,
    }
    write_json(folder / "summary.json", summary)
    draw(summary, folder)
    write_whole(folder / "README.md", report(summary).encode())
    return summary


def _trained(folder: Path, settings: Settings, say: Say) -> dict[str, Any]:
    """Train a model and analyse it; what the folder holds already is continued or read, not done again."""

    def tell(trainer: Trainer) -> None:
        say(f"{folder.name}: {progress_line(trainer.at, settings.test)}")

    trainer = train(folder, settings, tell)
    at = trainer.at
    training = {"steps": at.step, "seconds": at.seconds, "cpu": at.cpu, "checks": at.checks}
    return {"training": training, **_analysed(folder, settings, say)}


def shuffled_patience(settings: Settings, steps: int) -> int:
    """Steps at one length for the control with shuffled labels, so that it trains about as long as a run of `steps`.

    It cannot learn the longer lengths, so each lasts as long as patience does; those it learns by heart end earlier.

    >>> shuffled_patience(Settings(longest=20, settle=600), 1550)
    50
    """
    return max(1, math.ceil((steps - settings.settle) / (settings.longest - SHORTEST + 1)))


def progress_line(at: Progress, test: int) -> str:
    """Accuracies first: a terminal of 80 columns cuts the end.

    >>> progress_line(Progress(step=30, length=3, checks=[{"train": 1.0, "length": 2, "test": 0.5}]), test=40)
    '100% right at 2 bits, 50% at 40 bits; step 30 of ?, 3 bits, loss 1.000'
    """
    tested = ""
    if at.checks:
        last = at.checks[-1]
        tested = f"{last['train']:.0%} right at {int(last['length'])} bits, {last['test']:.0%} at {test} bits; "
    return f"{tested}step {at.step} of {at.end or '?'}, {at.length} bits, loss {at.running:.3f}"


def _untrained(folder: Path, settings: Settings, say: Say) -> dict[str, Any]:
    model = room("fast").LoopedTransformer.init(settings.model_config(), seed=settings.seed, scale=settings.scale)
    write_untrained(folder, model, settings.rate)
    return _analysed(folder, settings, say)


def _analysed(folder: Path, settings: Settings, say: Say) -> dict[str, Any]:
    checkpoints = checkpoints_in(folder)

    def make() -> dict[str, Any]:
        tell = telling(say, f"{folder.name}: influence on probes")
        made, result = analyse(settings, checkpoints, folder / "store", tell)
        result.save(folder / "probes.safetensors")
        return made.to_dict()

    return kept(folder / "analysis.json", made_of(settings, checkpoints), make)


def _tests(folder: Path, settings: Settings, say: Say) -> dict[str, Any]:
    place = folder / f"seed-{settings.seed}"
    checkpoints = checkpoints_in(place)

    def make() -> dict[str, Any]:
        tell = telling(say, f"{place.name}: influence on tests")
        return influence_on_tests(settings, checkpoints, place / "store-of-tests", tell)

    return kept(folder / "tests.json", made_of(settings, checkpoints), make)
