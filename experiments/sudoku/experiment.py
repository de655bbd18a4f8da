"""experiment: train the seeds, analyse them, run the controls, write the page. Every part goes on where it was.

FOLDER/seed-0/...      training: settings, state, checkpoints; analysis.json
FOLDER/permuted/...    the same, trained as long on solutions of other boards with as many blanks
FOLDER/controls.json   of the first seed: untrained weights, permuted labels, moved blanks
FOLDER/README.md summary.json figure.png training.png
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdi.files import write_whole
from sdi.run.one_thread import one_thread

from ..base import check_seeds, checkpoints_in, kept, made_of, make_folder, telling, write_json, write_untrained
from .boards import Boards
from .figure import draw
from .findings import controls
from .findings.analysis import analyse, sampled
from .report import report
from .settings import Settings
from .split import Split, split
from .training import Progress, Trainer, fresh_model, train

Say = Callable[[str], None]


def run_experiment(
    folder: Path,
    settings: Settings,
    seeds: Sequence[int],
    say: Say = lambda words: None,
    command: str = "",
    boards: Boards | None = None,
) -> dict[str, Any]:
    """Train all seeds, analyse them, run the controls and write the report. Returns what summary.json holds.

    folder: where everything is kept; a stopped run goes on from it. settings, seeds: of the models to train.
    say: called with lines of progress. command: the command line, for the report. boards: SATNet's, or generated ones.
    """
    check_seeds(seeds)
    if boards is not None and settings.size != 9:
        raise ValueError(f"SATNet's boards have 9 digits, config {settings.config!r} has {settings.size}")
    settings = replace(settings, satnet=boards is not None)  # a folder that was begun with other boards is refused
    make_folder(folder)
    with one_thread():
        runs = {seed: _trained(folder / f"seed-{seed}", replace(settings, seed=seed), boards, say) for seed in seeds}
        main = replace(settings, seed=seeds[0])
        others = _controls(folder, main, boards, say)
        if settings.permuted:
            place = folder / "permuted"
            others["trained on permuted labels"] = _trained(place, replace(main, labels="permuted"), boards, say)
    for store in folder.glob("*/store*"):  # gigabytes at full size, and everything asked of them was answered
        shutil.rmtree(store)
    summary = {
        "command": command,
        "settings": settings.to_dict(),
        "seeds": {str(seed): run for seed, run in runs.items()},
        "main": seeds[0],
        "controls": others,
    }
    write_json(folder / "summary.json", summary)
    draw(summary, folder)
    write_whole(folder / "README.md", report(summary).encode())
    return summary


def _trained(folder: Path, settings: Settings, boards: Boards | None, say: Say) -> dict[str, Any]:
    """Train a model and analyse it; what the folder holds already is continued or read, not done again."""
    sides = split(settings, boards)

    def tell(trainer: Trainer) -> None:
        say(f"{folder.name}: {progress_line(trainer.at, settings.updates)}")

    at = train(folder, settings, tell, boards=sides).at
    training = {"steps": at.step, "seconds": at.seconds, "cpu": at.cpu, "checks": at.checks}
    checkpoints = checkpoints_in(folder)

    def make() -> dict[str, Any]:
        return analyse(settings, sides, checkpoints, folder / "store", telling(say, f"{folder.name}: influence"))

    return {"training": training, **kept(folder / "analysis.json", made_of(settings, checkpoints), make)}


def _controls(folder: Path, settings: Settings, boards: Boards | None, say: Say) -> dict[str, Any]:
    """The controls of the main seed."""
    place = folder / f"seed-{settings.seed}"
    checkpoints = checkpoints_in(place)
    sides: Split = split(settings, boards)

    def make() -> dict[str, Any]:
        some = sampled(settings, sides)
        write_untrained(folder / "untrained", fresh_model(settings), settings.rate)
        untrained = checkpoints_in(folder / "untrained")
        told = {name: telling(say, f"control, {name}") for name in ("untrained", "permuted", "moved")}
        swapped = controls.permuted(settings, some)
        return {
            "untrained": controls.of_weights(
                settings, some, untrained, folder / "untrained" / "store", told["untrained"]
            ),
            "permuted labels": controls.of_weights(
                settings, swapped, checkpoints, place / "store-of-permuted", told["permuted"]
            ),
            "moved blanks": controls.of_moved(settings, some, checkpoints, place / "store", told["moved"]),
        }

    made = kept(folder / "controls.json", made_of(settings, checkpoints), make)
    return {name: made[name] for name in ("untrained", "permuted labels", "moved blanks")} | {
        "seconds": made["seconds"]
    }


def progress_line(at: Progress, updates: int) -> str:
    """Accuracies first: a terminal of 80 columns cuts the end.

    >>> progress_line(Progress(step=30, checks=[{"train": 1.0, "test": 0.5}]), 100)
    'solves 100% of training boards, 50% of test boards; update 30 of 100, loss 2.000'
    """
    tested = ""
    if at.checks:
        last = at.checks[-1]
        tested = f"solves {last['train']:.0%} of training boards, {last['test']:.0%} of test boards; "
    return f"{tested}update {at.step} of {updates}, loss {at.running:.3f}"
