"""judge_task: train one task, score in several ways, retrain without random groups, and judge. Resumable.

FOLDER/window.json              the smooth horizon of every seed, and the window that is taken
FOLDER/runs/...                 the training runs and every retraining, by content
FOLDER/seed-0/NAME.safetensors  each score
FOLDER/seed-0/seed.json         costs, accuracy, noise of retraining
FOLDER/judgement.json
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.inputs.batches import read_batches
from sdi.result.result import Result, load
from sdi.retraining.along_training import along_training
from sdi.retraining.judge import judge
from sdi.retraining.retrain import carried_out
from sdi.retraining.through_training import through_training
from sdi.retraining.training_run import TrainingRun

from ..base import kept, make_folder
from .noise import noise_of_retraining
from .peers import peer_scores
from .settings import Settings
from .tasks import task_of
from .training import accuracy, training_run

Tell = Callable[[Any], None]
CHEAP: dict[str, dict[str, Any]] = {  # arguments of along_training; "few": those of the settings
    "TracIn split over steps": {"checkpoints": "few"},
    "TracIn, Adam's moments": {"checkpoints": "few", "precondition": "adam"},
    "as met": {"checkpoints": None},
    "as met, Adam's moments": {"checkpoints": None, "precondition": "adam"},
    "as met, cosine": {"checkpoints": None, "precondition": "cosine"},
    "as met, damped Fisher": {"checkpoints": None, "precondition": "fisher"},
    "as met, Kronecker": {"checkpoints": None, "precondition": "kronecker"},
}
DERIVATIVE = "through training"


def judge_task(
    folder: Path, settings: Settings, seeds: Sequence[int], say: Callable[[str], None], peers: bool = False
) -> dict[str, Any]:
    """Train all seeds, score, retrain, judge. Returns what the report says of this task, as plain values.

    folder: where everything is kept. settings, seeds: of the models. say: called with lines of progress.
    peers: also judge whole-loss scores of other libraries.
    """
    make_folder(folder)
    runs = [training_run(settings, seed) for seed in seeds]
    places = [folder / f"seed-{seed}" for seed in seeds]
    found = kept(folder / "window.json", {**settings.to_dict(), "seeds": list(seeds)}, lambda: {
        "horizons": [
            _horizon(run, settings, folder / "runs", _telling(say, f"{settings.task}, seed {seed}, horizon"))
            for seed, run in zip(seeds, runs, strict=True)
        ]
    })  # fmt: skip
    smooth = min(horizon["smooth"] for horizon in found["horizons"])
    window = smooth or settings.window
    scores: dict[str, list[Result]] = {name: [] for name in (DERIVATIVE, *CHEAP)}
    each = []
    for seed, run, place, horizon in zip(seeds, runs, places, found["horizons"], strict=True):
        make_folder(place)
        tell = _telling(say, f"{settings.task}, seed {seed}")
        made = {name: _score(name, run, settings, window, place, tell) for name in scores}
        for name, result in made.items():
            scores[name].append(result)
        each.append({"seed": seed, "horizon": horizon, **_seed_figures(settings, run, seed, window, place, made, tell)})
    others, failed = _peers(runs, replace(settings, window=window), places, each, say) if peers else ({}, {})
    every: dict[str, Any] = {**scores, **others}
    of = {"settings": settings.to_dict(), "seeds": list(seeds), "scores": list(every), "window": window}

    def judged() -> dict[str, Any]:
        found = judge(
            runs, task_of(settings).queries(settings), every, groups=settings.groups, share=settings.share,
            window=window, together=True, qld=settings.qld, folder=folder / "runs",
            progress=_telling(say, f"{settings.task}, judging"),
        )  # fmt: skip
        sizes = [np.sqrt((effects.by_slot**2).mean(axis=(0, 1))).tolist() for effects in found.effects]
        return {**found.to_dict(), "sizes": sizes}

    return {
        "about": task_of(settings).about(settings),
        "settings": settings.to_dict(),
        "window": window,
        "smooth": smooth > 0,
        "seeds": each,
        "failed": failed,
        "judgement": kept(folder / "judgement.json", of, judged),
    }


def _peers(
    runs: Sequence[TrainingRun],
    settings: Settings,
    places: Sequence[Path],
    each: list[dict[str, Any]],
    say: Callable[[str], None],
) -> tuple[dict[str, list[Path]], dict[str, str]]:
    """Files of other libraries' scores, by name, one for each seed; and why others failed. Costs go to `each`."""
    made, errors = [], {}
    for run, place, seed in zip(runs, places, each, strict=True):
        files = peer_scores(run, settings, place / "peers", place.parent / "runs", say)
        made.append(files)
        training = seed["costs"][DERIVATIVE]["training"]
        for record in sorted((place / "peers").glob("*.json")):
            said = json.loads(record.read_text(encoding="utf-8"))
            if "error" in said:
                errors[said["name"]] = said["error"]
            elif "seconds" in said:
                seed["costs"][said["name"]] = {"multiple": said["seconds"] / training}
    return {name: [files[name] for files in made] for name in made[0] if all(name in f for f in made)}, errors


def derivative_of(folder: Path, seed: int) -> Result:
    """The derivative that `judge_task` made in this folder for one seed."""
    return load(_file(DERIVATIVE, folder / f"seed-{seed}"))


def _telling(say: Callable[[str], None], what: str) -> Tell:
    return lambda progress: say(f"{what}: {progress}")


def _horizon(run: TrainingRun, settings: Settings, runs: Path, tell: Tell) -> dict[str, Any]:
    result = through_training(
        run, task_of(settings).queries(settings), window=settings.window, together=True, beyond=True, folder=runs,
        progress=tell,
    )  # fmt: skip
    return dict(result.info["horizon"])


def _file(name: str, place: Path) -> Path:
    return place / f"{name.replace(' ', '-').replace(',', '').replace(chr(39), '')}.safetensors"


def _score(name: str, run: TrainingRun, settings: Settings, window: int, place: Path, tell: Tell) -> Result:
    file = _file(name, place)
    if file.exists():
        return load(file)
    queries = task_of(settings).queries(settings)
    common: dict[str, Any] = {
        "window": window, "together": True, "folder": place.parent / "runs", "progress": tell,
    }  # fmt: skip
    if name == DERIVATIVE:
        result = through_training(run, queries, probes=0, **common)
    else:
        options = dict(CHEAP[name])
        if options["checkpoints"] == "few":
            options["checkpoints"] = settings.checkpoints
        result = along_training(run, queries, **options, **common)
    result.save(file)
    return result


def _seed_figures(
    settings: Settings, run: TrainingRun, seed: int, window: int, place: Path, made: dict[str, Result], tell: Tell
) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        runs = place.parent / "runs"
        replay = carried_out(run, run.first(window), runs, tell)
        queries = list(read_batches(task_of(settings).queries(settings), "query"))
        losses = room("fast.training").query_gradients(run, replay.placed, replay.weights, queries, True)
        return {
            "accuracy": accuracy(settings, replay.weights, replay.placed),
            "losses": losses.losses.tolist(),
            "noise": noise_of_retraining(settings, seed, replay, queries, runs, tell).tolist(),
            "costs": {name: result.info["cost"] for name, result in made.items()},
        }

    return kept(place / "seed.json", {**settings.to_dict(), "scores": list(made), "window": window}, make)
