"""experiment: train two stages for each seed, analyse them and an untrained model, write the page. Every part goes on.

FOLDER/seed-0/tokenizer.json
FOLDER/seed-0/{mid,tuned}/...   training: settings, state, checkpoints; analysis.json
FOLDER/seed-0/untrained/...     the first weights, analysed the same way
FOLDER/README.md summary.json
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sdi.files import write_whole
from sdi.run.one_thread import one_thread

from ..base import check_seeds, checkpoints_in, kept, made_of, make_folder, write_json, write_untrained
from .analysis import analyse
from .answers import chance
from .chat import Chat, prepare
from .model import fresh_model
from .report import report
from .settings import STAGES, Settings
from .training import Progress, Trainer, train

Say = Callable[[str], None]


def run_experiment(
    folder: Path, settings: Settings, seeds: Sequence[int], say: Say = lambda words: None, command: str = ""
) -> dict[str, Any]:
    """Train all seeds, analyse them and write the report. Returns what summary.json holds.

    folder: where everything is kept; a stopped run goes on from it. settings, seeds: of the models to train.
    say: called with lines of progress. command: the command line, for the report.
    """
    check_seeds(seeds)
    make_folder(folder)
    with one_thread():
        runs = {str(seed): _run(folder / f"seed-{seed}", replace(settings, seed=seed), say) for seed in seeds}
    for store in folder.glob("*/*/store"):
        shutil.rmtree(store)
    summary = {"command": command, "settings": settings.to_dict(), "seeds": runs, "main": seeds[0]}
    write_json(folder / "summary.json", summary)
    write_whole(folder / "README.md", report(summary).encode())
    return summary


def _run(folder: Path, settings: Settings, say: Say) -> dict[str, Any]:
    """One seed: both stages and the control."""
    make_folder(folder)
    chat = prepare(settings, folder)
    out: dict[str, Any] = {"chance": chance(chat.corpus.train["problems"], chat.corpus.test["problems"])}
    start: Path | None = None
    for stage in STAGES:
        mine = settings.at_stage(stage)

        def tell(trainer: Trainer, mine: Settings = mine) -> None:
            say(f"{folder.name}, {mine.stage}: {progress_line(trainer.at, mine.stage_updates)}")

        at = train(folder / stage, mine, chat, start, tell).at
        start = checkpoints_in(folder / stage)[-1]
        training = {"steps": at.step, "seconds": at.seconds, "cpu": at.cpu, "checks": at.checks}
        out[stage] = {"training": training, **_analysed(folder / stage, chat, mine, say)}
    write_untrained(folder / "untrained", fresh_model(settings), settings.rate)
    out["untrained"] = _analysed(folder / "untrained", chat, settings.at_stage(STAGES[-1]), say)
    return out


def _analysed(place: Path, chat: Chat, settings: Settings, say: Say) -> dict[str, Any]:
    points = checkpoints_in(place)
    return kept(
        place / "analysis.json",
        made_of(settings, points),
        lambda: analyse(chat, settings, points, place / "store", say),
    )


def progress_line(at: Progress, updates: int) -> str:
    """Accuracy first: a terminal of 80 columns cuts the end.

    >>> progress_line(Progress(step=30, checks=[{"right": 0.5}]), 100)
    'answers 50% of held-out problems; update 30 of 100, loss 5.000'
    """
    tested = f"answers {at.checks[-1]['right']:.0%} of held-out problems; " if at.checks else ""
    return f"{tested}update {at.step} of {updates}, loss {at.running:.3f}"
