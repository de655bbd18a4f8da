"""`sdi report`: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.markup import escape

import sdi
from sdi.cli.exit_codes import exit_codes
from sdi.cli.run_config import find_place, find_run
from sdi.inputs.batches import in_order
from sdi.inputs.groups_file import read_groups
from sdi.inputs.script import load_functions
from sdi.printable import printable
from sdi.report.figures import write_figures
from sdi.result.score_store import score
from sdi.run.run_record import read_record
from sdi.run.runs import Run
from sdi.units import bytes_text
from sdi.version import __version__

MOST_BYTES = 2 << 30  # of training features that are read to score a store that has no saved result
STREAMED = 2000  # training examples that are scored of a larger one: the strongest


def report_command(
    source: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's folder (also s3://...), a config, or a saved result.")
    ],
    out: Annotated[
        Path | None, typer.Option(help="The HTML file to write. [default: report.html in the run's folder]")
    ] = None,
    query: Annotated[
        list[str] | None, typer.Option(help="The id of a query; may be repeated. [default: the first 64]")
    ] = None,
    by_group: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Energy by group: a .json {id: group}, or a .csv of id,group.")
    ] = None,
    show: Annotated[
        Path | None,
        typer.Option(
            metavar="SCRIPT",
            help="A Python file, which is run, with train(), query() and show(example): what to show of an example.",
        ),
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Also write figures of the first queries: PNG, SVG and PDF.")
    ] = None,
    style: Annotated[str, typer.Option(help="Of the figures: screen, or paper, one column of two.")] = "screen",
) -> None:
    """Write one HTML file that shows a run: trajectories, heatmaps, examples, a table. It needs no network."""
    with exit_codes(script=show):
        found = find_source(find_place(source), query)
        loaders: dict[str, Any] = dict(found.script)
        if show is not None:
            loaders = load_functions(show, ("show", "train", "query"))
        path = sdi.write_report(
            found.default if out is None else out,
            found.result,
            store=found.store,
            checkpoints=found.points,
            queries=query,
            groups=None if by_group is None else read_groups(by_group),
            show=loaders.get("show"),
            train=loaders["train"]() if loaders else None,
            query=loaders["query"]() if loaders else None,
            title=f"sdi: {found.name}",
        )
        drawn = []
        if figures is not None:
            drawn = write_figures(figures, found.result, found.store, found.points, query, style)
    console = Console(highlight=False, emoji=False)
    console.print(f"report {escape(printable(path))}: {bytes_text(path.stat().st_size)}", soft_wrap=True)
    if drawn:
        console.print(f"figures {escape(printable(figures))}: {len(drawn)} files", soft_wrap=True)


class Source(NamedTuple):
    """What a report is written of. script: the functions show, train and query of a config's script, if it shows."""

    result: sdi.Result
    store: sdi.Store | None
    points: Any
    default: Path
    name: str
    script: dict[str, Any]


def find_source(source: Path, queries: list[str] | None) -> Source:
    """A saved result; or the result and the store of a run's folder, or of a config, whose script is run."""
    if source.is_file() and source.suffix != ".toml":
        return Source(sdi.load(source), None, (), source.with_suffix(".html"), source.name, {})
    script: dict[str, Any] = {}
    folder = source
    asked: Path | Run = source
    if not source.is_dir():
        asked = the = Run.read(source)
        folder = the.config.store
        if the.script.show is not None:
            script = {"show": the.script.show, "train": the.script.train, "query": the.script.query}
    found = find_run(asked, [])
    saved = not source.is_dir() or read_record(source).result_sha256 is not None
    result = sdi.load(found.find_result()) if saved else score_run(found, queries)
    store = found.store if found.mode != "train" else None
    return Source(result, store, found.points, folder / "report.html", folder.resolve().name, script)


def score_run(found: Any, queries: list[str] | None) -> sdi.Result:
    """Scores from a store whose run saved none, as `sdi.attribute(store=...)` leaves it."""
    if found.store is None:
        found.find_result()  # says that there is none, and what to do
    store, points = found.store, found.points
    asked = queries or list(in_order(store.rows(points[0].key, "query")))
    train, notes = list(found.train), []
    if len(train) * store.sketch.size * 4 > MOST_BYTES:
        tops = sdi.stream_top(store, points, asked, max(1, STREAMED // len(asked)), by="absolute", train=train)
        train = list(in_order({row.train for top in tops for row in top}))
        notes = [f"of {len(found.train):,} training examples in the store, the {len(train):,} strongest were scored"]
    info = {"sdi": __version__, "eta": {p.key: p.eta for p in points}, "notes": notes}
    return score(store, points, train, asked, "query", info, found.stderr)
