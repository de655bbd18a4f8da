"""`sdi judge SCRIPT FOLDER`: retrain, and say how well scores predicted what happened."""

from __future__ import annotations

import inspect
import json as jsonlib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

import sdi
from sdi.cli.exit_codes import exit_codes
from sdi.cli.progress import status
from sdi.cli.tables import plain_table
from sdi.inputs.script import load_functions
from sdi.retraining.linear_datamodelling import Interval

COMPUTED = ("through-training", "tracin", "as-met")


def judge_command(
    script: Annotated[Path, typer.Argument(metavar="SCRIPT", help="A Python file: run() or run(seed), query().")],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Keeps every run; a stopped call goes on.")],
    score: Annotated[list[str], typer.Option(help=f"One of {', '.join(COMPUTED)}; may be given again.")] = [],  # noqa: B006
    file: Annotated[list[str], typer.Option(help="NAME=FILE: a saved result, or an .npy (train, query[, step]).")] = [],  # noqa: B006
    groups: Annotated[int, typer.Option(help="Runs without a random group.")] = 40,
    share: Annotated[float, typer.Option(help="Of the examples in a group.")] = 0.05,
    window: Annotated[int | None, typer.Option(help="Leave out of the last updates only.")] = None,
    together: Annotated[bool, typer.Option("--together", help="The mean of each query batch is one query.")] = False,
    qld: Annotated[float | None, typer.Option(help="Also leave out this share of the top examples.")] = None,
    seeds: Annotated[str, typer.Option(help="Numbers with commas, if the script has run(seed).")] = "0",
    processes: Annotated[int, typer.Option(help="How many train at once.")] = 1,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Retrain without random groups of examples; say of each score how well it predicted what happened, by step."""
    from sdi.cli.experiment import parse_seeds

    with exit_codes(json, script=script, stopped="finished runs are kept; the same command goes on"):
        functions = load_functions(script, ("run", "query"))
        takes_seed = bool(inspect.signature(functions["run"]).parameters)
        numbers = parse_seeds(seeds)
        if len(numbers) > 1 and not takes_seed:
            raise ValueError(f"--seeds {seeds} needs a function run(seed) in {script}; it defines run()")
        runs = [functions["run"](seed) if takes_seed else functions["run"]() for seed in numbers]
        query = list(functions["query"]())
        with status(quiet=json) as tell:
            common: dict[str, Any] = {
                "window": window, "together": together, "folder": folder, "progress": lambda p: tell(str(p)),
            }  # fmt: skip
            scores = {name: _computed(name, runs, query, common) for name in score} | dict(map(_named, file))
            if not scores:
                raise ValueError(f"nothing to judge: give --score {COMPUTED[0]}, or --file NAME=FILE")
            found = sdi.judge(runs, query, scores, groups=groups, share=share, qld=qld, processes=processes, **common)
    if json:
        print(jsonlib.dumps(found.to_dict(), indent=1, allow_nan=False))
    else:
        show_judgement(Console(highlight=False, emoji=False), found)


def _computed(name: str, runs: Iterable[sdi.TrainingRun], query: Any, common: dict[str, Any]) -> list[sdi.Result]:
    if name not in COMPUTED:
        raise ValueError(f"--score must be one of {COMPUTED}, got {name!r}; for a file, --file NAME=FILE")
    if name == "through-training":
        return [sdi.through_training(run, query, beyond=True, **common) for run in runs]
    return [sdi.along_training(run, query, checkpoints=8 if name == "tracin" else None, **common) for run in runs]


def _named(text: str) -> tuple[str, Path]:
    name, equals, path = text.partition("=")
    if not equals or not name or not path:
        raise ValueError(f"--file must be NAME=FILE, got {text!r}")
    return name, Path(path)


def show_judgement(console: Console, found: sdi.Judgement) -> None:
    """Print the judgement as a table, with its notes."""
    steps = found.effects[0].steps.shape[2]
    heads = ["score", "whole loss", *(f"step {t}" for t in range(1, steps + 1)), "QLD"]
    rows: list[list[str]] = []
    for name, judged in found.scores.items():
        by_step = [""] * steps if judged.steps is None else [_short(judged.steps, t) for t in range(steps)]
        rows.append([name, _long(judged.lds), *by_step, "" if judged.qld is None else f"{judged.qld.value[0]:+.3g}"])
    if found.ceiling is not None:
        ceiling = [_short(found.ceiling, t + 1) for t in range(steps)]
        rows.append(["(another seed)", _long(found.ceiling), *ceiling, ""])
    effects = found.effects[0]
    console.print(
        f"LDS of {effects.runs} runs without a group, {len(effects.query_ids)} queries, {len(found.effects)} seeds; "
        f"metasmoothness {found.smoothness:.2f}"
    )
    console.print(plain_table(heads, rows, right=heads[1:]))
    if len(found.effects) > 1:  # a mean may hide one
        lowest = "; ".join(f"{name} {_lowest(judged)}" for name, judged in found.scores.items())
        console.print(f"lowest LDS in one run: {escape(lowest)}")
    for note in found.notes:
        console.print(f"[yellow]note[/] {escape(note)}")


def _lowest(judged: sdi.Judged) -> str:
    value, run, step = judged.lowest
    return "none" if np.isnan(value) else f"{value:.2f} (run {run + 1}, {f'step {step}' if step else 'whole loss'})"


def _short(interval: Interval, column: int) -> str:
    return "" if np.isnan(interval.value[column]) else f"{interval.value[column]:.2f}"


def _long(interval: Interval) -> str:
    if np.isnan(interval.value[0]):
        return "nothing varies"
    return f"{interval.value[0]:.2f} ({interval.low[0]:.2f} to {interval.high[0]:.2f})"
