"""`sdi verify` in the terminal: a table that keeps what matters at 80 columns and says everything at 120."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console, Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sdi.verify import Verification

WIDE = 120  # columns from which what a statement says stands beside it


def show_verification(console: Console, found: Verification, mutants: bool) -> None:
    console.print(_statement_table(found.reports, mutants, console.width >= WIDE))
    for report in found.reports:
        if not report.holds:
            console.print(f"[red]{escape(report.name)}[/] {escape(report.mutant or '')} {escape(report.detail)}")
    if found.errata:
        _show_errata(console, found.errata)
    failed = sum(not report.holds for report in found.reports)
    seconds = sum(report.seconds for report in found.reports)
    what = "wrong claims rejected" if mutants else "statements hold"
    console.print(f"{len(found.reports) - failed} of {len(found.reports)} {what}, {seconds:.1f} s")


def _statement_table(reports: list[Any], mutants: bool, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left", title_style="bold")
    table.title = "Wrong claims, which must be rejected" if mutants else "The paper's statements, computed"
    table.add_column("statement", no_wrap=not mutants, overflow="fold")
    if wide:
        table.add_column("wrong claim" if mutants else "says", ratio=1)
    for name in ("method", "cases", "verdict", "time"):
        table.add_column(name, justify="right" if name in ("cases", "time") else "left", no_wrap=True)
    good, bad = ("rejected", "NOT REJECTED") if mutants else ("holds", "FAILS")
    for r in reports:
        verdict = f"[green]{good}[/]" if r.holds else f"[bold red]{bad}[/]"
        cell: Any = Text(r.name)
        if mutants and not wide:  # without it, the rows of a statement could not be told apart
            cell = Group(cell, Padding(Text(r.mutant, "dim"), (0, 0, 0, 2)))
        text = [escape(r.mutant if mutants else r.says)] if wide else []
        table.add_row(cell, *text, r.method, f"{r.cases:,}", verdict, f"{r.seconds:.2f} s")
    return table


def _show_errata(console: Console, errata: list[dict[str, Any]]) -> None:
    """One paragraph each: four columns of text would be too narrow to read."""
    console.print("\n[bold]Where the paper contradicts itself, decided by computation[/]")
    for e in errata:
        console.print(f"\n{escape(e['where'])}")
        for label, text in (("written", e["written"]), ("true", e["true"]), ("how", f"{e['how']}: {e['evidence']}")):
            row = Table.grid(padding=(0, 1))
            row.add_column(width=9, justify="right", style="dim")
            row.add_column(overflow="fold")
            row.add_row(label, escape(text))
            console.print(row)
    console.print()
