"""The `sdi` command. Thin: every command is one call into the library, and a way to print what came back.

Exit codes: 0 done, 1 a check failed, 2 bad input.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import sdi

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
console = Console(highlight=False)


@contextmanager
def bad_input_is_exit_code_2() -> Iterator[None]:
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        print(f"sdi: {error}", file=sys.stderr)
        raise typer.Exit(2) from None


def show_version(asked: bool) -> None:
    if asked:
        print(f"sdi {sdi.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Which training examples shaped which loop step of a looped transformer."""


@app.command()
def verify(
    only: Annotated[str, typer.Option(help="Only statements whose name contains this, or matches it (*?[]).")] = "*",
    thorough: Annotated[bool, typer.Option("--thorough", help="Larger cases; takes minutes.")] = False,
    mutants: Annotated[bool, typer.Option("--mutants", help="Show that every check rejects its wrong claims.")] = False,
    statements: Annotated[Path | None, typer.Option(help="A Python file with statements of your own.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
) -> None:
    """Check every mathematical statement of the paper by computation."""
    from sdi.verify import verify as run

    if statements is not None and not statements.is_file():
        print(f"sdi: --statements must be a Python file, got {statements}, which does not exist", file=sys.stderr)
        raise typer.Exit(2)
    with bad_input_is_exit_code_2(), console.status("") as status:
        found = run(only, thorough, mutants, statements, progress=lambda name: status.update(f"checking {name}"))
        if json is not None:
            found.save(json, version=sdi.__version__, thorough=thorough, mutants=mutants)
    console.print(_statement_table(found.reports, mutants))
    for report in found.reports:
        if not report.holds:
            console.print(f"[red]{escape(report.name)}[/] {escape(report.mutant or '')} {escape(report.detail)}")
    if found.errata:
        console.print(_errata_table(found.errata))
    failed = sum(not report.holds for report in found.reports)
    seconds = sum(report.seconds for report in found.reports)
    what = "wrong claims rejected" if mutants else "statements hold"
    console.print(f"{len(found.reports) - failed} of {len(found.reports)} {what}, {seconds:.1f} s")
    raise typer.Exit(0 if found.passed else 1)


def _statement_table(reports: list, mutants: bool) -> Table:  # type: ignore[type-arg]
    table = Table(title="Wrong claims, which must be rejected" if mutants else "The paper's statements, computed")
    table.add_column("statement", no_wrap=True)
    table.add_column("mutant" if mutants else "says", ratio=1)
    for name in ("method", "cases", "verdict", "time"):
        table.add_column(name, justify="right" if name in ("cases", "time") else "left", no_wrap=True)
    good, bad = ("rejected", "NOT REJECTED") if mutants else ("holds", "FAILS")
    for r in reports:
        verdict = f"[green]{good}[/]" if r.holds else f"[bold red]{bad}[/]"
        text = escape(r.mutant if mutants else r.says)
        table.add_row(r.name, text, r.method, f"{r.cases:,}", verdict, f"{r.seconds:.2f} s")
    return table


def _errata_table(errata: list) -> Table:  # type: ignore[type-arg]
    table = Table(title="Where the paper contradicts itself, decided by computation", show_lines=True)
    for name in ("where", "written", "true", "how it was decided"):
        table.add_column(name, ratio=1)
    for e in errata:
        table.add_row(*(escape(e[k]) for k in ("where", "written", "true")), escape(f"{e['how']}: {e['evidence']}"))
    return table


@app.command()
def demo() -> None:
    """A small looped model, attributed exactly and by sketch, its trajectory printed."""
    from sdi.demo import demo as run

    run(console)


if __name__ == "__main__":
    app()
