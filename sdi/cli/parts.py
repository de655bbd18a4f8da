"""`sdi parts` in the terminal: a row for each parameter, sorted by the size of its influence, largest first."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich import box
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

import sdi
from sdi.cli.exit_codes import exit_codes
from sdi.cli.tables import number_text, sign_style, spark
from sdi.printable import printable
from sdi.scores.standard_error import Z95


def parts_command(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A config, or a run's folder (also s3://...).")],
    query: Annotated[str | None, typer.Option(help="The id of a query. Left out, it lists what there is.")] = None,
    train: Annotated[
        list[str] | None, typer.Option(help="The id of a training example; may be repeated. [default: the strongest]")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the first training example to this file.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")] = False,
) -> None:
    """Which parameters, at which steps, carry the influence of a training example on a query."""
    from sdi.cli.run_config import find_parts, read_source

    with exit_codes(json):
        found = find_parts(read_source(source), query, train or [])
        if plot is not None:
            found.plot(plot)
    if json:
        print(jsonlib.dumps(parts_json(found), indent=1, allow_nan=False))
    else:
        console = Console(highlight=False, emoji=False)
        console.print(*(parts_table(found, i) for i in found.sdi.coords["train"].values), sep="\n")


def parts_json(parts: sdi.Parts) -> dict[str, Any]:
    coords = parts.sdi.coords
    axes = {str(dim): coords[dim].values.tolist() for dim in coords}
    arrays = {name: getattr(parts, name).values.tolist() for name in ("sdi", "tracin", "stderr", "tracin_stderr")}
    return {"query": parts.query, **axes, **arrays}


def parts_table(parts: sdi.Parts, train: str) -> Group:
    """A table of parameters, sorted by the sum over steps of |influence|, largest first; the last row is the total."""
    steps, scores = parts.sdi.sel(train=train), parts.tracin.sel(train=train).values
    errors = parts.tracin_stderr.sel(train=train).values
    mass = np.abs(steps.values).sum(axis=1)
    share = mass / (mass.sum() or 1.0)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("parameter", overflow="fold")
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("± 95%", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    table.add_column("step 1 2 3 …", no_wrap=True, overflow="ellipsis")
    for p in np.argsort(-mass, kind="stable"):
        number = Text(number_text(scores[p]), sign_style(scores[p]))
        name, drawn = Text(printable(steps.coords["parameter"].values[p])), spark(steps.values[p].tolist())
        table.add_row(name, number, f"{Z95 * errors[p]:.2g}", f"{share[p]:.0%}", drawn)
    total, drawn = scores.sum(), spark(steps.values.sum(axis=0).tolist())
    table.add_section()
    table.add_row("all", Text(number_text(total), sign_style(total)), "", "", drawn)
    named = (printable(train), "bold"), " on query ", (printable(parts.query), "bold")
    return Group(Text.assemble("train ", *named), table)
