"""`sdi experiment ...`: the paper's applications, each one call into its room."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from sdi.backends import room
from sdi.cli.exit_codes import exit_codes
from sdi.cli.progress import status

app = typer.Typer(no_args_is_help=True, help="The paper's experiments: train, attribute, analyse, report.")


@app.callback()
def experiments() -> None:
    """The paper's experiments: train, attribute, analyse, report."""


@app.command()
def parity(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the run; one that was begun goes on.")],
    config: Annotated[str, typer.Option(help="paper, small or smoke.")] = "small",
    seeds: Annotated[str, typer.Option(help="Numbers, with commas.")] = "0,1,2",
    json: Annotated[bool, typer.Option("--json", help="Print summary.json and nothing else.")] = False,
) -> None:
    """A looped transformer learns parity; its influence trajectories point to an automaton; controls may refute it."""
    with exit_codes(json, stopped="the same command goes on where it was"):
        experiment = room("experiments.parity")
        settings = experiment.configuration(config)
        numbers = parse_seeds(seeds)
        command = f"sdi experiment parity {folder.name} --config {config} --seeds {seeds}"
        with status(quiet=json) as tell:
            summary = experiment.run_experiment(folder, settings, numbers, tell, command)
    print(jsonlib.dumps(summary) if json else f"{folder / 'README.md'}: the summary; figures and numbers beside it")


@app.command()
def sudoku(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the run; one that was begun goes on.")],
    config: Annotated[str, typer.Option(help="paper, full, small or smoke.")] = "small",
    seeds: Annotated[str, typer.Option(help="Numbers, with commas.")] = "0",
    satnet: Annotated[
        Path | None, typer.Option(help="A folder with SATNet's features.pt and labels.pt; else boards are generated.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print summary.json and nothing else.")] = False,
) -> None:
    """A looped transformer learns Sudoku: loop steps against difficulty, memorisation, and when influence acts."""
    with exit_codes(json, stopped="the same command goes on where it was"):
        experiment = room("experiments.sudoku")
        settings = experiment.configuration(config)
        numbers = parse_seeds(seeds)
        boards = None if satnet is None else experiment.load_satnet(satnet)
        given = "" if satnet is None else " --satnet SATNET"
        command = f"sdi experiment sudoku {folder.name} --config {config} --seeds {seeds}{given}"
        with status(quiet=json) as tell:
            summary = experiment.run_experiment(folder, settings, numbers, tell, command, boards)
    print(jsonlib.dumps(summary) if json else f"{folder / 'README.md'}: the summary; figures and numbers beside it")


def parse_seeds(text: str) -> list[int]:
    """Numbers from a list with commas.

    >>> parse_seeds("0,2")
    [0, 2]
    """
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--seeds must be numbers with commas, like 0,1,2, got {text!r}") from None
