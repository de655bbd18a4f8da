"""The `sdi` command. Thin: every command is one call into the library, and a way to print what came back.

Exit codes: 0 done, 1 a check failed, 2 bad input, 70 a defect of ours, 130 stopped by the user, 141 a closed pipe.
"""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import sdi
from sdi.arguments import one_of
from sdi.cli.exit_codes import BAD_INPUT, FAILED, Commands, end, exit_codes
from sdi.cli.experiment import app as experiment_app
from sdi.cli.index import index_command
from sdi.cli.judge import judge_command
from sdi.cli.parts import parts_command
from sdi.cli.report import report_command
from sdi.cli.validate import validate_command
from sdi.printable import printable
from sdi.result.ranking import Top, check_order
from sdi.retrieval.retrieve_top import CANDIDATES
from sdi.version import __version__

app = typer.Typer(cls=Commands, no_args_is_help=True, pretty_exceptions_enable=False)
app.add_typer(experiment_app, name="experiment")


class Terminal(Console):
    """A rich Console that lets BrokenPipeError through, so that `Commands` can end with its exit code."""

    def on_broken_pipe(self) -> None:
        raise


console = Terminal(highlight=False, emoji=False)

ConfigFile = Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file; see docs/guide.md.")]
Source = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A config, a run's folder (also s3://...), or a saved result.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Part = Annotated[
    str | None,
    typer.Option(metavar="K/N", help="Of an array job: make the K-th of N parts of the features, and no result."),
]
SHARDS_KEPT = (
    "finished shards are kept, and what came after the last one (fewer examples than one shard and a batch hold) is "
    "made again by the same command, which goes on from there"
)
Count = Annotated[int, typer.Option("-k", help="Training examples per query.")]


def show_version(asked: bool) -> None:
    if asked:
        print(f"sdi {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Which training examples shaped which loop step of a looped transformer."""


@app.command()
def run(config: ConfigFile, k: Count = 5, part: Part = None, json: Json = False) -> None:
    """Featurize, score, save the result, and show who influences the first queries most."""
    from sdi.cli.run_config import bar_for, sharing, show_result, summary_of
    from sdi.run import runs

    if part is not None:
        featurize(config, part, json)
        return
    with exit_codes(json, stopped=SHARDS_KEPT):
        check_order(k, "signed")
        the = runs.Run.read(config)
        with sharing(the, part), bar_for(the, json) as tell:
            result = runs.run(the, tell)
        tops = [result.top(k, query=query) for query in result.labels["query"][:3]]
    if not the.share.leads:
        return
    if json:
        print_json({**summary_of(the, result), "top": [top_json(top) for top in tops]})
    else:
        show_result(console, the, result, tops)


@app.command()
def featurize(config: ConfigFile, part: Part = None, json: Json = False) -> None:
    """Fill the store with the features of every example; what is there is not made again."""
    from sdi.cli.run_config import bar_for, counts_line, sharing
    from sdi.run import runs

    with exit_codes(json, stopped=SHARDS_KEPT):
        the = runs.Run.read(config)
        with sharing(the, part), bar_for(the, json) as tell:
            ids = runs.featurize(the, tell)
    if the.share.together and not the.share.leads:
        return
    if json:
        counts = {side: len(names) for side, names in ids.items()}
        print_json({"store": str(the.config.store), **counts, "made": the.made, "reused": the.reused})
    else:
        console.print(counts_line(the), soft_wrap=True)


@app.command()
def score(config: ConfigFile, json: Json = False) -> None:
    """Score the features in the store, without building the model, and save the result."""
    from sdi.cli.run_config import sharing, show_result, summary_of
    from sdi.run import runs

    with exit_codes(json):
        the = runs.Run.read(config)
        with sharing(the, None):
            result = runs.score(the)
    if not the.share.leads:
        return
    if json:
        print_json(summary_of(the, result))
    else:
        show_result(console, the, result, [])


@app.command()
def top(
    source: Source,
    query: Annotated[
        list[str] | None, typer.Option(help="The id of a query; may be repeated. Left out, it lists what there is.")
    ] = None,
    steps: Annotated[str | None, typer.Option(help="A step (17) or a range (17-32, 17-, -32), from 1.")] = None,
    k: Count = 10,
    by: Annotated[
        str, typer.Option(help="signed, absolute, late (absolute among those that act late); energy, of groups.")
    ] = "signed",
    by_group: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Rank groups: a .json {id: group}, or a .csv of id,group.")
    ] = None,
    train_steps: Annotated[
        str | None, typer.Option(help="Only these steps of the training examples; needs mode matrix.")
    ] = None,
    index: Annotated[bool, typer.Option("--index", help="Rank the candidates that the index finds: `sdi index`.")] = (
        False
    ),
    candidates: Annotated[int, typer.Option(help="With --index: how many to look at.")] = CANDIDATES,
    json: Json = False,
) -> None:
    """The training examples that most influence a query, streamed from the store or read from a result."""
    from sdi.cli.run_config import find_group_tops, find_tops, joined_job, parse_steps, read_source
    from sdi.cli.tables import top_table

    with exit_codes(json):
        if by_group is not None and (index or train_steps is not None):
            raise ValueError("--by-group must be left out with --index and --train-steps, which rank examples")
        found = read_source(source)
        with joined_job(found) as share:
            if by_group is None:
                most, of = candidates if index else None, parse_steps(train_steps)
                tops, result = find_tops(found, query or [], k, parse_steps(steps), by, share, of, most)
            elif share.leads:
                tops, result = find_group_tops(found, query or [], by_group, k, parse_steps(steps), by)
    if not share.leads:
        return
    if json:
        print_json([top_json(t) for t in tops])
    else:
        console.print(*(top_table(t, result) for t in tops), sep="\n")


@app.command()
def ids(
    source: Source,
    side: Annotated[str | None, typer.Option(help="train or query: only these, one id in a line.")] = None,
    json: Json = False,
) -> None:
    """The ids of the training examples and the queries, in the order of the result."""
    from sdi.cli.run_config import find_ids, read_source

    with exit_codes(json):
        one_of("--side", side, (None, "train", "query"))
        found = {name: names for name, names in find_ids(read_source(source)).items() if side in (None, name)}
    if json:
        print_json(found)
        return
    for name, names in found.items():
        for i in names:
            print(printable(i) if side else f"{name}  {printable(i)}")


@app.command()
def loops(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="A TOML file, of which only script is read, or it.")],
    json: Json = False,
) -> None:
    """Find the loop: run the loss on one batch, and propose the line of Python and TOML that describes it."""
    from sdi.cli.loops import find, loops_json, show_loops

    with exit_codes(json):
        found = find(config)
    if json:
        print_json(loops_json(found))
    else:
        show_loops(console, found)


@app.command()
def inspect(config: ConfigFile, json: Json = False) -> None:
    """What a run will do and cost: checkpoints, steps, coverage, sizes, time and memory. Writes nothing."""
    from sdi.cli.inspect import show_inspection
    from sdi.cli.progress import status
    from sdi.run.inspect import inspect_run
    from sdi.run.runs import Run

    with exit_codes(json), status(quiet=json) as tell:
        found = inspect_run(Run.read(config), tell)
    if json:
        print_json(found.to_dict())
    else:
        show_inspection(console, found)


@app.command()
def plan(
    config: ConfigFile,
    examples: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="Training examples, such as 1e6; may be repeated. [default: 1e6 to 1e9]"),
    ] = None,
    queries: Annotated[int | None, typer.Option(help="Their number. [default: as many as there are]")] = None,
    hosts: Annotated[int, typer.Option(help="Processes, each on a machine of its own, that fill one store.")] = 1,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, ...; where model() puts it unless given.")] = None,
    json: Json = False,
) -> None:
    """Time, memory, disk and network of the run at any size, from a timed batch, with the formulas."""
    from sdi.cli.plan import plan_config
    from sdi.cli.progress import status

    with exit_codes(json), status(quiet=json) as tell:
        found = plan_config(config, examples or [], queries, hosts, device, tell)
    if json:
        print_json(found.to_dict())
    else:
        print(found)


@app.command("choose-m")
def choose_m(
    target: Annotated[float, typer.Option(help="The wanted standard error, as a share of |g| |phi|.")],
    config: Annotated[Path | None, typer.Argument(metavar="[CONFIG]", help="Measure a batch of this run, too.")] = None,
    json: Json = False,
) -> None:
    """The sketch width m for a wanted error: by the worst-case bound and, with a config, measured on one batch."""
    from sdi.cli.run_config import pilot

    with exit_codes(json):
        chosen = sdi.choose_m(target) if config is None else pilot(target, config)
    if json:
        print_json({"target": target, **chosen._asdict()})
        return
    console.print(f"m = {chosen.bound:,} keeps the standard error below {target:g} |g| |phi| for any gradients")
    if chosen.pilot is not None:
        console.print(
            f"m = {chosen.pilot:,} is enough for these: at m = {chosen.pilot_m}, one batch of the last checkpoint\n"
            f"shows an error of {chosen.pilot_error:.2g}"
        )


@app.command()
def verify(
    only: Annotated[str, typer.Option(help="Only statements whose name contains this, or matches it (*?[]).")] = "*",
    thorough: Annotated[bool, typer.Option("--thorough", help="Larger cases; takes minutes.")] = False,
    mutants: Annotated[bool, typer.Option("--mutants", help="Show that every check rejects its wrong claims.")] = False,
    statements: Annotated[Path | None, typer.Option(help="A Python file with statements of your own.")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the table to this file.")] = None,
) -> None:
    """Check every mathematical statement of the paper by computation."""
    from sdi.cli.progress import status
    from sdi.cli.verify import show_verification
    from sdi.run.verify import verify as check

    with exit_codes(script=statements):
        if statements is not None and not statements.is_file():
            end(BAD_INPUT, f"--statements must be a Python file, got {statements}, which does not exist")
        with status() as tell:
            found = check(only, thorough, mutants, statements, progress=lambda name: tell(f"checking {name}"))
        if json is not None:
            found.save(json, version=__version__, thorough=thorough, mutants=mutants)
        show_verification(console, found, mutants)
        raise typer.Exit(0 if found.passed else FAILED)


@app.command()
def demo(
    keep: Annotated[Path | None, typer.Option(help="A new folder for checkpoints, store and result.")] = None,
    pretrained: Annotated[bool, typer.Option("--pretrained", help="A trained model, in seconds.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write what was found as one HTML file.")] = None,
    task: Annotated[str, typer.Argument(metavar="[TASK]", help="With --pretrained: parity or sudoku.")] = "parity",
) -> None:
    """Train a small looped transformer on parity, trace every loop step to its training strings, check it all."""
    from sdi.cli.demo import demo as show
    from sdi.cli.demo_pretrained import demo_pretrained
    from sdi.cli.demo_sudoku import demo_sudoku

    with exit_codes():
        if pretrained and keep is not None:
            raise ValueError(f"--keep is for the demo that trains; with --pretrained it must be left out, got {keep}")
        shows = {"parity": demo_pretrained, "sudoku": demo_sudoku}
        if task not in shows or (task != "parity" and not pretrained):
            rule = "parity or sudoku" if task not in shows else "parity without --pretrained"
            raise ValueError(f"TASK must be {rule}, got {task!r}")
        if pretrained:
            shows[task](console, report)
        else:
            show(console, keep, report=report)


app.command("index")(index_command)
app.command("judge")(judge_command)
app.command("parts")(parts_command)
app.command("report")(report_command)
app.command("validate")(validate_command)


def top_json(top: Top) -> dict[str, Any]:
    rows = [row._asdict() for row in top]
    for row in rows:
        row[top.what] = row.pop("train")
        for name in ("late", "stderr"):
            row[name] = None if row[name] != row[name] else row[name]  # JSON has no NaN
    return {"query": top.query, "steps": top.steps, "by": top.by, "rows": rows}


def print_json(content: Any) -> None:
    print(jsonlib.dumps(content, indent=1, allow_nan=False))
