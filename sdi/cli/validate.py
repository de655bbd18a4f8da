"""`sdi validate` in the terminal: a verdict per property, what failed and what to do, and where the sketch stands."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from sdi.cli.exit_codes import FAILED, exit_codes

if TYPE_CHECKING:
    from sdi.validate.report import Finding, Report

WIDE = 110  # columns from which what was seen stands in the table
VERDICTS = {
    "holds": "[green]holds[/]",
    "fails": "[bold red]FAILS[/]",
    "not decided": "[bold yellow]NOT DECIDED[/]",
    "not tested": "[yellow]not tested[/]",
    "does not apply": "[dim]does not apply[/]",
}


def validate_command(
    sketch: Annotated[str, typer.Argument(metavar="SKETCH", help="FILE.py:CLASS, package.module:CLASS, or a name.")],
    m: Annotated[
        int | None, typer.Option(help="The width at which it is tested; by default 16, or the next that it takes.")
    ] = None,
    shape: Annotated[str, typer.Option(help="Of the parameter: rows,columns; or one number for a vector.")] = "8,6",
    seed: Annotated[int, typer.Option(help="Where its draws begin; the same seed repeats the run.")] = 0,
    draws: Annotated[int, typer.Option(help="For every statistical verdict: more see smaller faults.")] = 4000,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Check a sketch class: linear, unbiased, within its claimed variance, conserving, equal on both backends."""
    from sdi.cli.progress import status
    from sdi.validate import validate

    place = sketch.rpartition(":")[0]
    with exit_codes(json, script=Path(place).expanduser().resolve() if place.endswith(".py") else None):
        size = parse_shape(shape)
        with status(quiet=json) as tell:
            report = validate(sketch, shape=size, m=m, seed=seed, draws=draws, progress=tell)
    if json:
        print(jsonlib.dumps(report.to_dict(), indent=1))
    else:
        show_report(Console(highlight=False), report)
    raise typer.Exit(0 if report.passed else FAILED)


def parse_shape(text: str) -> tuple[int, ...]:
    """Numbers with commas between them.

    >>> parse_shape("8,6"), parse_shape("50")
    ((8, 6), (50,))
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"--shape must be rows,columns or one number, got {text!r}; write --shape 8,6") from None


def show_report(console: Console, report: Report) -> None:
    console.print(_findings(report, console.width >= WIDE))
    for finding in report.findings:
        if finding.verdict in ("fails", "not decided"):
            _explain(console, finding)
    if report.standing:
        _show_standing(console, report)
    console.print("\n[bold]Not tested[/]")
    for what in report.not_tested:
        console.print(Padding(escape(what), (0, 0, 0, 2)))
    held, apply = report.counts
    seconds = sum(f.seconds for f in report.findings)
    console.print(
        f"\n{held} of {apply} properties hold, {seconds:.0f} s. Shape {report.shape}, m={report.m}, "
        f"seed {report.seed}, {report.draws} draws.\nA good sketch fails any of the statistical checks with "
        f"probability at most {report.alpha:.0e}."
    )


def _findings(report: Report, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left", title_style="bold")
    table.title = escape(report.sketch)
    table.add_column("property", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("how", no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("what was looked at" if wide else "says", ratio=1)
    for f in report.findings:
        text = "; ".join(filter(None, (f.seen, f.power))) if wide or not f.how else f.says
        table.add_row(f.property, VERDICTS[f.verdict], f.how, f"{f.cases:,}" if f.cases else "", escape(text))
    return table


def _explain(console: Console, finding: Finding) -> None:
    fails = finding.verdict == "fails"
    how = "does not hold" if fails else "is not decided"
    console.print(f"\n[bold {'red' if fails else 'yellow'}]{finding.property}[/] {how}: {escape(finding.says)}")
    case = "smallest case" if fails else "case"
    rows = (("found", finding.wrong), (case, finding.case), ("what to do", finding.remedy))
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=13, justify="right", style="dim")
    grid.add_column(overflow="fold")
    for label, text in rows:
        if text:
            grid.add_row(label, escape(text))
    console.print(grid)


def _show_standing(console: Console, report: Report) -> None:
    from sdi.validate.compare_shipped import SHAPE, M

    console.print(
        f"\n[bold]Where it stands[/] ({SHAPE[0]} x {SHAPE[1]}, m={M}): indicative, small samples, one machine"
    )
    console.print("error: of <S x, S y> / |x| |y| on sums of outer products", style="dim")
    console.print("claimed: the same for the worst pair, by the claimed bound", style="dim")
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in ("sketch", "numbers", "bytes", "error", "claimed", "time / tensor"):
        table.add_column(name, justify="left" if name == "sketch" else "right", no_wrap=True)
    for row in report.standing:
        own = row.sketch == report.sketch
        name = f"[bold]{escape(row.sketch.rpartition(':')[2])}[/]" if own else row.sketch
        cells = (f"{row.numbers:,}", f"{row.bytes:,}", f"{row.error:.3f}", f"{row.claimed:.3f}")
        table.add_row(name, *cells, f"{row.against_tensor:.2f}")
    console.print(table)
