"""experiment: train two stages for each seed, analyse them and the controls, write the page. Every part goes on.

FOLDER/seed-0/tokenizer.json
FOLDER/seed-0/{mid,tuned}/...         training: settings, state, checkpoints; analysis.json, sources.json
FOLDER/seed-0/tuned/...               also swap.json, preferences.json, rewards.json
FOLDER/seed-0/fixed/{mid,tuned}/...   a control, trained with a fixed number of loop steps; the last stage is analysed
FOLDER/seed-0/untrained/...           the first weights, analysed the same way
FOLDER/README.md summary.json figure.png counter.png sources.png
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
from .answers import chance
from .chat import Chat, prepare
from .figure import draw
from .findings.analysis import analyse
from .findings.preferences import preferences
from .findings.rewards import rewards
from .findings.source_steps import sources_by_steps
from .findings.swap import swap
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
    for store in [*folder.glob("seed-*/*/store"), *folder.glob("seed-*/fixed/*/store")]:
        shutil.rmtree(store)
    summary = {"command": command, "settings": settings.to_dict(), "seeds": runs, "main": seeds[0]}
    write_json(folder / "summary.json", summary)
    draw(summary, folder)
    write_whole(folder / "README.md", report(summary).encode())
    return summary


def _run(folder: Path, settings: Settings, say: Say) -> dict[str, Any]:
    """One seed: both stages, the controls, and what is asked of the stages alone."""
    make_folder(folder)
    chat = prepare(settings, folder)
    out: dict[str, Any] = {"chance": chance(chat.corpus.train["problems"], chat.corpus.test["problems"])}
    fixed = _stages(folder / "fixed", chat, settings.control, say)
    for stage, training in _stages(folder, chat, settings, say).items():
        out[stage] = {"training": training, **_analysed(folder / stage, chat, settings.at_stage(stage), say)}
    last = STAGES[-1]
    out["fixed"] = {
        "training": fixed[last],
        "training of mid": fixed["mid"],
        **_analysed(folder / "fixed" / last, chat, settings.control.at_stage(last), say),
    }
    write_untrained(folder / "untrained", fresh_model(settings), settings.rate)
    out["untrained"] = _analysed(folder / "untrained", chat, settings.at_stage(last), say)
    return out | _asked(folder, chat, settings, say)


def _stages(folder: Path, chat: Chat, settings: Settings, say: Say) -> dict[str, Any]:
    """Train both stages; what the folder holds already is continued or read, not done again."""
    out: dict[str, Any] = {}
    start: Path | None = None
    for stage in STAGES:
        mine = settings.at_stage(stage)

        def tell(trainer: Trainer, mine: Settings = mine) -> None:
            say(f"{folder.name}, {mine.stage}: {progress_line(trainer.at, mine.stage_updates)}")

        at = train(folder / stage, mine, chat, start, tell).at
        start = checkpoints_in(folder / stage)[-1]
        out[stage] = {"steps": at.step, "seconds": at.seconds, "cpu": at.cpu, "checks": at.checks}
    return out


def _analysed(place: Path, chat: Chat, settings: Settings, say: Say) -> dict[str, Any]:
    points = checkpoints_in(place)
    return kept(
        place / "analysis.json",
        made_of(settings, points),
        lambda: analyse(chat, settings, points, place / "store", say),
    )


def _asked(folder: Path, chat: Chat, settings: Settings, say: Say) -> dict[str, Any]:
    """Sources by steps of both stages; swaps, preferences and rewards of the last. Each is a file of its own."""
    points = {stage: checkpoints_in(folder / stage) for stage in STAGES}
    last = STAGES[-1]
    stage, place = settings.at_stage(last), folder / last

    def asked(where: Path, name: str, of: Settings, make: Callable[[Path, Callable[[Any], None]], Any]) -> Any:
        tell = telling(say, f"{of.stage}: {name}")
        return kept(where / f"{name}.json", made_of(of, points[of.stage]), lambda: make(where / "store" / name, tell))

    def table(name: str) -> Any:
        mine = settings.at_stage(name)
        return asked(
            folder / name, "sources", mine,
            lambda store, tell: sources_by_steps(chat, mine, points[name], store, tell),
        )  # fmt: skip

    end, before = points[last][-1], points[STAGES[0]][-1]
    return {
        "sources": {name: table(name) for name in STAGES},
        "swap": asked(place, "swap", stage, lambda store, tell: swap(chat, stage, end, store, tell)),
        "preferences": asked(
            place, "preferences", stage,
            lambda store, tell: preferences(chat, stage, points[last], before, store, tell),
        ),
        "rewards": asked(place, "rewards", stage, lambda store, tell: rewards(chat, stage, end, store, tell)),
    }  # fmt: skip


def progress_line(at: Progress, updates: int) -> str:
    """Accuracy first: a terminal of 80 columns cuts the end.

    >>> progress_line(Progress(step=30, checks=[{"right": 0.5}]), 100)
    'answers 50% of held-out problems; update 30 of 100, loss 5.000'
    """
    tested = f"answers {at.checks[-1]['right']:.0%} of held-out problems; " if at.checks else ""
    return f"{tested}update {at.step} of {updates}, loss {at.running:.3f}"
