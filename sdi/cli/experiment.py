"""`sdi experiment ...`: the paper's applications, each one call into its room."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from sdi.backends import room
from sdi.cli.exit_codes import exit_codes
from sdi.cli.progress import status

app = typer.Typer(no_args_is_help=True, help="The paper's experiments: train, attribute, analyse, report.")


@app.callback()
def experiments() -> None:
    """The paper's experiments: train, attribute, analyse, report."""


Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="Of the run; one that was begun goes on.")]
Seeds = Annotated[str, typer.Option(help="Numbers, with commas.")]
Json = Annotated[bool, typer.Option("--json", help="Print summary.json and nothing else.")]


@app.command()
def parity(
    folder: Folder,
    config: Annotated[str, typer.Option(help="paper, small or smoke.")] = "small",
    seeds: Seeds = "0,1,2",
    json: Json = False,
) -> None:
    """A looped transformer learns parity; its influence trajectories point to an automaton; controls may refute it."""
    carry_out("parity", folder, config, seeds, json)


@app.command()
def sudoku(
    folder: Folder,
    config: Annotated[str, typer.Option(help="paper, full, small or smoke.")] = "small",
    seeds: Seeds = "0",
    satnet: Annotated[
        Path | None, typer.Option(help="A folder with SATNet's features.pt and labels.pt; else boards are generated.")
    ] = None,
    json: Json = False,
) -> None:
    """A looped transformer learns Sudoku: loop steps against difficulty, memorisation, and when influence acts."""
    if satnet is None:
        carry_out("sudoku", folder, config, seeds, json)
    else:
        carry_out("sudoku", folder, config, seeds, json, " --satnet SATNET", lambda room: room.load_satnet(satnet))


@app.command()
def nanochat(
    folder: Folder,
    config: Annotated[str, typer.Option(help="paper, small or smoke.")] = "small",
    seeds: Seeds = "0",
    json: Json = False,
) -> None:
    """A recursive chat model in two stages: how influence is spread over loop steps, by horizon and truncation."""
    carry_out("nanochat", folder, config, seeds, json)


@app.command()
def meaning(
    folder: Folder,
    config: Annotated[
        str, typer.Option(help="small (all tasks); parity, sudoku or language (one); or smoke.")
    ] = "small",
    seeds: Seeds = "0,1,2",
    peers: Annotated[
        bool, typer.Option("--peers", help="Judge scores of dattri and bergson, too, which are installed apart.")
    ] = False,
    json: Json = False,
) -> None:
    """Does a step's number predict retraining? Three small tasks, several scores, and groups left out for real."""
    more: dict[str, Any] = {"peers": True} if peers else {}
    carry_out("meaning", folder, config, seeds, json, " --peers" * peers, **more)


def carry_out(
    name: str,
    folder: Path,
    config: str,
    seeds: str,
    json: bool,
    given: str = "",
    data: Callable[[Any], Any] | None = None,
    **options: Any,
) -> None:
    """Run the experiment `name` and say where its summary is.

    folder, config, seeds, json: as on the command line. given: further options, for the report. data: reads what the
    experiment is run on, given its room, before anything else is done. options: of `run_experiment`.
    """
    with exit_codes(json, stopped="the same command goes on where it was"):
        experiment = room(f"experiments.{name}")
        settings, numbers = experiment.configuration(config), parse_seeds(seeds)
        more = () if data is None else (data(experiment),)
        command = f"sdi experiment {name} {folder.name} --config {config} --seeds {seeds}{given}"
        with status(quiet=json) as tell:
            summary = experiment.run_experiment(folder, settings, numbers, tell, command, *more, **options)
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
