"""run_experiment: train, score in several ways, retrain without random groups, judge, write the report. Resumable.

FOLDER/seed-0/runs/...        the training run and every retraining, by content
FOLDER/seed-0/NAME.safetensors  each score
FOLDER/seed-0/seed.json       horizon, costs, accuracy
FOLDER/judgement.json summary.json README.md figure.png
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sdi.backends import room
from sdi.files import write_whole
from sdi.inputs.batches import read_batches
from sdi.result.result import Result, load
from sdi.retraining.along_training import along_training
from sdi.retraining.judge import judge
from sdi.retraining.retrain import carried_out
from sdi.retraining.through_training import through_training
from sdi.retraining.training_run import TrainingRun
from sdi.run.one_thread import one_thread

from ..base import check_seeds, kept, make_folder, write_json
from .figure import draw
from .report import report
from .settings import Settings
from .tasks import task_of
from .training import accuracy, training_run

Say = Callable[[str], None]
CHEAP: dict[str, dict[str, Any]] = {  # arguments of along_training
    "TracIn split over steps": {"checkpoints": "few"},
    "as met, Adam's moments": {"checkpoints": None, "precondition": "adam"},
    "as met, damped Fisher": {"checkpoints": None, "precondition": "fisher"},
}
DERIVATIVE = "through training"


def run_experiment(
    folder: Path, settings: Settings, seeds: Sequence[int], say: Say = lambda words: None, command: str = ""
) -> dict[str, Any]:
    """Train all seeds, score, retrain, judge, and write the report. Returns what summary.json holds.

    folder: where everything is kept; a stopped run goes on from it. settings, seeds: of the models to train.
    say: called with lines of progress. command: the command line, for the report.
    """
    check_seeds(seeds)
    make_folder(folder)
    with one_thread():
        runs = [training_run(settings, seed) for seed in seeds]
        places = [folder / f"seed-{seed}" for seed in seeds]
        scores: dict[str, list[Result]] = {name: [] for name in (DERIVATIVE, *CHEAP)}
        each = []
        for seed, run, place in zip(seeds, runs, places, strict=True):
            make_folder(place)

            def tell(progress: Any, seed: int = seed) -> None:
                say(f"seed {seed}: {progress}")

            made = {name: _score(name, run, settings, place, tell) for name in scores}
            for name, result in made.items():
                scores[name].append(result)
            each.append({"seed": seed, **_seed_figures(settings, run, place, made)})
        of = {"settings": settings.to_dict(), "seeds": list(seeds), "scores": list(scores)}

        def judged() -> dict[str, Any]:
            found = judge(
                runs, task_of(settings).queries(settings), scores, groups=settings.groups, share=settings.share,
                window=settings.window, together=True, qld=settings.qld, folder=folder / "runs",
                progress=lambda progress: say(f"judging: {progress}"),
            )  # fmt: skip
            return found.to_dict()

        judgement = kept(folder / "judgement.json", of, judged)
    summary = {
        "command": command,
        "about": task_of(settings).about(settings),
        "settings": settings.to_dict(),
        "seeds": each,
        "judgement": judgement,
    }
    write_json(folder / "summary.json", summary)
    draw(summary, folder)
    write_whole(folder / "README.md", report(summary).encode())
    return summary


def _score(name: str, run: TrainingRun, settings: Settings, place: Path, tell: Callable[[Any], None]) -> Result:
    file = place / f"{name.replace(' ', '-').replace(',', '').replace(chr(39), '')}.safetensors"
    if file.exists():
        return load(file)
    queries = task_of(settings).queries(settings)
    common: dict[str, Any] = {
        "window": settings.window, "together": True, "folder": place.parent / "runs", "progress": tell,
    }  # fmt: skip
    if name == DERIVATIVE:
        result = through_training(run, queries, beyond=True, **common)
    else:
        options = dict(CHEAP[name])
        if options["checkpoints"] == "few":
            options["checkpoints"] = settings.checkpoints
        result = along_training(run, queries, **options, **common)
    result.save(file)
    return result


def _seed_figures(settings: Settings, run: TrainingRun, place: Path, made: dict[str, Result]) -> dict[str, Any]:
    def make() -> dict[str, Any]:
        replay = carried_out(run, run.first(settings.window), place.parent / "runs", lambda progress: None)
        losses = room("fast.training").query_gradients(
            run, replay.placed, replay.weights, list(read_batches(task_of(settings).queries(settings), "query")), True
        )
        return {
            "accuracy": accuracy(settings, replay.weights, replay.placed),
            "losses": losses.losses.tolist(),
            "horizon": made[DERIVATIVE].info["horizon"],
            "costs": {name: result.info["cost"] for name, result in made.items()},
        }

    return kept(place / "seed.json", settings.to_dict(), make)
