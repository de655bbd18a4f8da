"""The `sdi-bench` command. Thin: each command measures one Record, prints it, and saves it where asked.

Exit codes: 0 done (whether bars are met is in the table), 2 bad input, or a worker that failed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from .bystanders import Bystanders
from .interleave import Progress
from .record import Record, Table

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False)

Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes: tries the benchmark, measures nothing.")]
Json = Annotated[Path | None, typer.Option(help="Write everything that was measured to this file.")]
Authors = Annotated[bool, typer.Option("--authors/--no-authors", help="Measure the authors' release too.")]


@app.callback()
def main() -> None:
    """Time, memory and fidelity, as ratios with the bars they must meet."""


@app.command()
def speed(
    rounds: Annotated[int, typer.Option(min=1, help="The minimum over these is taken.")] = 3,
    quick: Quick = False,
    authors: Authors = True,
    work: Annotated[list[str] | None, typer.Option(help="gpt or sudoku; both unless given.")] = None,
    json: Json = None,
) -> None:
    """Time against a plain training step and the authors' release, contenders interleaved."""
    from .speed import measure_speed

    _run(lambda tell: measure_speed(rounds, quick, authors, work or ("gpt", "sudoku"), tell), json, quick)


@app.command()
def memory(quick: Quick = False, authors: Authors = True, json: Json = None) -> None:
    """Peak memory over the model, each contender in its own process."""
    from .memory import measure_memory

    _run(lambda tell: measure_memory(quick, authors, tell), json, quick)


@app.command()
def kernels(
    quick: Quick = False,
    m: Annotated[int, typer.Option(min=2, help="Sketch width.")] = 2048,
    json: Json = None,
) -> None:
    """The cost model's constants, measured, and whether it picks the faster route."""
    from .kernels import SHAPES, measure_kernels

    _run(lambda _: measure_kernels(m, 2 if quick else 15, SHAPES[:2] if quick else SHAPES), json, quick)


@app.command()
def fidelity(
    quick: Quick = False,
    d: Annotated[int, typer.Option(min=2, help="Width of the model.")] = 96,
    tau: Annotated[int, typer.Option(min=1, help="Loop steps.")] = 8,
    core: Annotated[int, typer.Option(min=1, help="Blocks in the loop.")] = 2,
    examples: Annotated[int, typer.Option(min=1, help="Examples in the batch.")] = 4,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of each.")] = 32,
    seeds: Annotated[int, typer.Option(min=1, help="Sketches for each m.")] = 10,
    full: Annotated[bool, typer.Option("--full", help="The 135.1M model at tau=32; takes an hour.")] = False,
    json: Json = None,
) -> None:
    """Relative error of sketched scores against m, beside the paper's."""
    from .cases import gpt
    from .fidelity import WIDTHS, fidelity_case, measure_fidelity

    case = gpt(32) if full else fidelity_case(d, tau, core, examples, tokens)
    if quick:
        case = fidelity_case(32, 2, 1, 3, 8)
    _run(lambda tell: measure_fidelity(case, (64, 256) if quick else WIDTHS, 2 if quick else seeds, tell), json, quick)


@app.command()
def conservation(quick: Quick = False, json: Json = None) -> None:
    """Sketched steps of the 135.1M model, summed, against the sketch of autograd's gradient."""
    from .cases import gpt
    from .conservation import measure_conservation

    _run(lambda tell: measure_conservation(gpt(quick=quick), tell), json, quick)


@app.command()
def stream(
    folder: Annotated[Path, typer.Option(help="Where to make the store: 6.6 GB, kept for the next time.")] = Path(
        ".bench"
    ),
    quick: Quick = False,
    rounds: Annotated[int, typer.Option(min=1, help="The minimum over these is taken.")] = 3,
    json: Json = None,
) -> None:
    """Streaming top-k over a store on disk, against the bare product over the same mapped file."""
    from .stream import FULL, TINY, measure_stream

    _run(lambda tell: measure_stream(folder, TINY if quick else FULL, rounds, tell), json, quick)


@app.command()
def authors(json: Json = None) -> None:
    """Install the authors' release where needed, and check that as driven here it computes what it should."""
    from .authors_check import check_authors

    _run(lambda _: check_authors(), json, False)


@app.command()
def report(files: Annotated[list[Path], typer.Argument(help="JSON files written by the other commands.")]) -> None:
    """Print measured figures as Markdown."""
    from .report import markdown

    with _bad_input_is_exit_code_2():
        print(markdown([Record.load(file) for file in files]), end="")


@contextmanager
def _bad_input_is_exit_code_2() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OSError, RuntimeError) as error:
        print(f"sdi-bench: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def _run(measure: Callable[[Progress], Record], json: Path | None, quick: bool) -> None:
    with _bad_input_is_exit_code_2():
        if json is not None and not json.absolute().parent.is_dir():
            raise OSError(f"--json must be in a folder that exists, got {json}")
        with Bystanders() as others:  # no spinner: its thread would run while the clock does
            record = measure(lambda text: print(text, file=sys.stderr, flush=True))
        record.settings["CPU taken by other processes"] = others.says
        if json is not None:
            record.save(json)
    for table in record.all_tables:
        console.print(_rich(table))
    if others.disturbed:
        console.print(f"not a quiet machine: other processes took {others.says}; measure again")
    if quick:
        console.print("quick: tiny sizes, so neither the figures nor the verdicts mean anything")


def _rich(table: Table) -> RichTable:
    printed = RichTable(title=escape(table.title))
    for name in table.columns:
        printed.add_column(escape(name))
    for row in table.rows:
        printed.add_row(*map(escape, row))
    return printed


if __name__ == "__main__":
    app()
