"""run: one command's Record is measured, saved and drawn where asked, and printed. Bad files are refused before."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from sdi.cli.exit_codes import STOPPED

from .guard import end
from .interleave import Progress
from .ledger import Ledger
from .other_processes import Bystanders
from .record import Record, Table

console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)


def run(
    measure: Callable[[Progress], Record],
    json: Path | None,
    plot: Path | None,
    quick: bool,
    ledger: Ledger | None = None,
) -> None:
    """Measure a record, save it as `json`, draw it as `plot`, and print it. ledger: lets a stopped command go on."""
    check_files(json, plot)
    began = perf_counter()

    def tell(text: str) -> None:  # no spinner: its thread would run while the clock does
        print(f"{perf_counter() - began:7.1f} s  {text}", file=sys.stderr, flush=True)

    try:
        with Bystanders() as others:
            record = measure(tell)
    except KeyboardInterrupt:
        if ledger is None:
            raise
        end(STOPPED, f"stopped; {ledger.after_a_stop}")
    if quick:
        record.settings["quick"] = True
    record.settings["CPU taken by other processes"] = others.says
    record.settings["wall time"] = f"{perf_counter() - began:.0f} s"
    if json is not None:
        record.save(json)
    if ledger is not None:
        ledger.close()
    if plot is not None:
        from .plot import plot as draw

        draw(record, plot)
    for table in record.all_tables:
        console.print(_rich(table))
    console.print("; ".join(f"{name}: {value}" for name, value in {**record.machine, **record.settings}.items()))
    if others.disturbed:
        console.print(f"not a quiet machine: other processes took {others.says}; measure again")
    if quick:
        console.print("quick: tiny sizes, so the figures mean nothing and no bar is judged")


def check_files(json: Path | None, plot: Path | None) -> None:
    """Refuse output files that cannot be written, before anything is measured."""
    for name, file in (("--json", json), ("--plot", plot)):
        if file is not None and file.is_dir():
            raise ValueError(f"{name} must be a file, got the folder {file}")
        if file is not None and not file.absolute().parent.is_dir():
            raise ValueError(f"{name} must be in a folder that exists, got {file}")
    if plot is not None:
        from .plot import require_matplotlib

        if plot.suffix != ".png":
            raise ValueError(f"--plot must be a .png file, got {plot}")
        require_matplotlib()


def check_folder(name: str, folder: Path | None) -> None:
    """Refuse a folder that is a file. name: the option, for the message."""
    if folder is not None and folder.exists() and not folder.is_dir():
        raise ValueError(f"{name} must be a folder, got the file {folder}")


def _rich(table: Table) -> RichTable:
    printed = RichTable(title=escape(table.title))
    for name in table.columns:
        printed.add_column(escape(name), overflow="fold")
    for row in table.rows:
        printed.add_row(*map(escape, row))
    return printed
