"""`sdi verify` in the terminal: each statement with its claim, on the same row from 120 columns on, else below it."""

from __future__ import annotations

from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sdi.run.verify import Verification

WIDE = 120  # columns from which what a statement says stands beside it
COLUMNS = ("method", "cases", "verdict", "time")
NUMBERS = ("cases", "time")


def show_verification(console: Console, found: Verification, mutants: bool) -> None:
    (_show_wide if console.width >= WIDE else _show_narrow)(console, found.reports, mutants)
    for report in found.reports:
        if not report.holds:
            console.print(f"[red]{escape(report.name)}[/] {escape(report.mutant or '')} {escape(report.detail)}")
    if found.errata:
        _show_errata(console, found.errata)
    failed = sum(not report.holds for report in found.reports)
    seconds = sum(report.seconds for report in found.reports)
    what = "wrong claims rejected" if mutants else "statements hold"
    console.print(f"{len(found.reports) - failed} of {len(found.reports)} {what}, {seconds:.1f} s")


def _show_wide(console: Console, reports: list[Any], mutants: bool) -> None:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left", title_style="bold")
    table.title = _title(mutants)
    table.add_column("statement", no_wrap=not mutants, overflow="fold")
    table.add_column("wrong claim" if mutants else "says", ratio=1)
    for name in COLUMNS:
        table.add_column(name, justify="right" if name in NUMBERS else "left", no_wrap=True)
    for r in reports:
        method, cases, verdict, seconds = _cells(r, mutants)
        table.add_row(Text(r.name), Text(_claim(r, mutants)), method, cases, Text(verdict, _style(r)), seconds)
    console.print(table)


def _show_narrow(console: Console, reports: list[Any], mutants: bool) -> None:
    """One row per statement, with its claim on the lines below."""
    rows = [(r.name, *_cells(r, mutants)) for r in reports]
    head = ("statement", *COLUMNS)
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    spare = console.width - sum(widths) - 2 * len(COLUMNS)
    widths[0] = max(widths[0] + min(spare, 0), 1)  # a longer name runs into the next columns
    console.print(f"[bold]{_title(mutants)}[/]\n")
    console.print("  ".join(_pad(head, widths)), style="bold")
    console.print("─" * min(sum(widths) + 2 * len(COLUMNS), console.width))
    for r, cells in zip(reports, rows, strict=True):
        styles = ("", "", "", _style(r), "")
        console.print(Text("  ").join(map(Text, _pad(cells, widths), styles)))
        console.print(Padding(Text(_claim(r, mutants), "dim"), (0, 0, 0, 2), expand=False))
    console.print()


def _title(mutants: bool) -> str:
    return "Wrong claims, which must be rejected" if mutants else "The paper's statements, computed"


def _claim(report: Any, mutants: bool) -> str:
    return str(report.mutant if mutants else report.says)


def _cells(report: Any, mutants: bool) -> tuple[str, str, str, str]:
    good, bad = ("rejected", "NOT REJECTED") if mutants else ("holds", "FAILS")
    return report.method, f"{report.cases:,}", good if report.holds else bad, f"{report.seconds:.2f} s"


def _style(report: Any) -> str:
    return "green" if report.holds else "bold red"


def _pad(cells: tuple[str, ...], widths: list[int]) -> list[str]:
    """Cells padded to their widths; numbers are right-aligned.

    >>> _pad(("a", "exact", "12", "holds", "1.00 s"), [3, 6, 5, 5, 7])
    ['a  ', 'exact ', '   12', 'holds', ' 1.00 s']
    """
    places = zip(("statement", *COLUMNS), cells, widths, strict=True)
    return [cell.rjust(w) if name in NUMBERS else cell.ljust(w) for name, cell, w in places]


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
