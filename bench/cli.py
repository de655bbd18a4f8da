"""The `sdi-bench` command: each subcommand names what to measure; `session.run` measures, saves and prints it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sdi.arguments import one_of
from sdi.cli.exit_codes import FAILED

from .harness.guard import Guarded
from .harness.interleave import Progress
from .harness.ledger import Ledger
from .harness.record import Record
from .harness.session import check_folder, run

app = typer.Typer(cls=Guarded, no_args_is_help=True, pretty_exceptions_enable=False)

Quick = Annotated[bool, typer.Option("--quick", help="Tiny sizes: tries the benchmark, measures nothing.")]
Json = Annotated[Path | None, typer.Option(help="Write everything that was measured to this file.")]
Plot = Annotated[Path | None, typer.Option(help="Draw what was measured into this PNG file.")]
Seed = Annotated[int, typer.Option(min=0, help="Weights, data and sketches follow from it.")]
Rounds = Annotated[int, typer.Option(min=1, help="The minimum over these is taken.")]
Work = Annotated[list[str] | None, typer.Option(help="gpt or sudoku; both unless given.")]
RESUMES = "With --json FILE, a run that was stopped goes on where it was (FILE.so-far)."


@app.callback()
def main() -> None:
    """Fidelity, time, memory, growth and peers, as ratios with the bars they must meet."""


@app.command(help=f"Relative error of sketched scores against m, beside the paper's; the same bytes spread. {RESUMES}")
def fidelity(
    quick: Quick = False,
    paper: Annotated[bool, typer.Option("--paper", help="The 135.1M model at tau=32, L=128; 12 minutes.")] = False,
    d: Annotated[int, typer.Option(min=2, help="Width of the model.")] = 96,
    tau: Annotated[int, typer.Option(min=1, help="Loop steps.")] = 8,
    core: Annotated[int, typer.Option(min=1, help="Blocks in the loop.")] = 2,
    examples: Annotated[int, typer.Option(min=1, help="Examples in the batch; with --paper, too.")] = 4,
    tokens: Annotated[int, typer.Option(min=1, help="Tokens of each.")] = 32,
    seeds: Annotated[int, typer.Option(min=1, help="Sketches for each m.")] = 10,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    from .commands.fidelity import measure_fidelity, small_gpt
    from .work.cases import gpt
    from .work.fidelity_work import Work

    def measure(tell: Progress) -> Record:
        if quick:
            work = Work(small_gpt(32, 2, 1, 3, 8, seed), (64, 256), 64, 2)
        elif paper:
            work = Work(replace(gpt(32, seed=seed), examples=examples, identity_injection=False), seeds=seeds)
        else:
            work = Work(small_gpt(d, tau, core, examples, tokens, seed), seeds=seeds)
        return measure_fidelity(work, tell, ledger)

    ledger = Ledger(json)
    run(measure, json, plot, quick, ledger)


@app.command()
def runtime(
    rounds: Rounds = 3,
    quick: Quick = False,
    work: Work = None,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """Featurising against an inference-only forward pass and a plain training step, and where the time goes."""
    from .commands.runtime import WORKS, measure_runtime

    run(lambda tell: measure_runtime(rounds, quick, work or WORKS, seed, tell), json, plot, quick)


@app.command(help=f"Peak over the model against tau, B, m and mode; the largest batch under a budget. {RESUMES}")
def memory(
    quick: Quick = False,
    authors: Annotated[bool, typer.Option("--authors/--no-authors", help="The authors' release, too.")] = True,
    budget: Annotated[int | None, typer.Option(min=1, help="MiB over the model, for the largest batch.")] = None,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    from .commands.memory import measure_memory
    from .commands.memory import plan as plan_of

    ledger = Ledger(json)
    work = plan_of(quick, seed, None if budget is None else budget << 20)
    run(lambda tell: measure_memory(work, authors, tell, ledger), json, plot, quick, ledger)


@app.command()
def growth(rounds: Rounds = 5, quick: Quick = False, seed: Seed = 0, json: Json = None, plot: Plot = None) -> None:
    """Exponents of time and memory in B, tau, L, d, m and n, beside what the analysis says."""
    from .commands.growth import measure_growth

    run(lambda tell: measure_growth(rounds, quick, seed, tell), json, plot, quick)


@app.command()
def peers(
    rounds: Rounds = 3,
    quick: Quick = False,
    work: Work = None,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """The same work by the authors' release, dattri and torch.func; answers checked before any time is taken."""
    from .commands.peers import WORKS, measure_peers

    run(lambda tell: measure_peers(rounds, quick, work or WORKS, seed, progress=tell), json, plot, quick)


@app.command()
def kernels(
    quick: Quick = False,
    m: Annotated[int, typer.Option(min=2, help="Sketch width.")] = 2048,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """The cost model's constants, measured, and whether it picks the faster route."""
    from .commands.kernels import SHAPES, measure_kernels

    shapes, repeats = (SHAPES[:2], 2) if quick else (SHAPES, 15)
    run(lambda tell: measure_kernels(m, repeats, shapes, seed, tell), json, plot, quick)


@app.command()
def device(
    device: Annotated[str | None, typer.Option(help="cuda, cuda:1, mps, ...; this machine's unless given.")] = None,
    rounds: Rounds = 3,
    quick: Quick = False,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """A GPU against the CPU: the same numbers, and what features cost there. Exit code 1 if a number differs."""
    from .commands.device import find_device, measure_device

    found = find_device(device)
    records: list[Record] = []

    def measure(tell: Progress) -> Record:
        records.append(measure_device(found, rounds, quick, seed, tell))
        return records[0]

    run(measure, json, None, quick)
    for name, why in records[0].failures.items():
        print(f"{name}: {why}")
    print(f"VERDICT: {records[0].settings['verdict']}")
    raise typer.Exit(FAILED if records[0].failures else 0)


@app.command()
def stream(
    folder: Annotated[Path, typer.Option(help="Where to make the store: 6.6 GB, kept for the next time.")] = Path(
        ".bench"
    ),
    quick: Quick = False,
    rounds: Rounds = 3,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """Streaming top-k over a store on disk, against the bare product over the same mapped file."""
    from .commands.stream import FULL, TINY, measure_stream

    check_folder("--folder", folder)
    run(lambda tell: measure_stream(folder, TINY if quick else FULL, rounds, tell, seed), json, plot, quick)


@app.command("bytes")
def bytes_command(
    m: Annotated[list[int] | None, typer.Option(min=1, help="A width, once for each; 32 to 2048 unless given.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Sketches for each point.")] = 5,
    quick: Quick = False,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """What a byte buys: error and error bars of float32, float16 and int8 stores against bytes, over widths m."""
    from .commands.bytes import byte_work, measure_bytes

    work = byte_work(quick, m, seeds, seed)
    run(lambda tell: measure_bytes(work, tell), json, plot, quick)


@app.command()
def retrieval(
    folder: Annotated[Path, typer.Option(help="Where to make the stores: 2.3 GB, kept for the next time.")] = Path(
        ".bench"
    ),
    task: Annotated[list[str] | None, typer.Option(help="parity or sudoku; both unless given.")] = None,
    size: Annotated[
        list[int] | None, typer.Option(min=10, help="Examples, once for each; 10^4, 10^5, 10^6 unless given.")
    ] = None,
    width: Annotated[
        list[int] | None, typer.Option(min=1, help="Of the index, once for each; 8, 16, 32, 64 unless given.")
    ] = None,
    quick: Quick = False,
    rounds: Rounds = 3,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """What an index finds of what the full scan finds, and its time and bytes, on features with real spectra."""
    from .commands.retrieval import DEFAULT_WIDTH, QUICK, measure_retrieval
    from .commands.retrieval import Work as Sizes
    from .work.real_features import TASKS

    check_folder("--folder", folder)
    for name in task or ():
        one_of("--task", name, TASKS)
    work = QUICK if quick else Sizes(rounds=rounds)
    work = work._replace(tasks=task or work.tasks, sizes=tuple(sorted(set(size or work.sizes))))
    work = work._replace(widths=tuple(sorted({*(width or work.widths), DEFAULT_WIDTH})))
    run(lambda tell: measure_retrieval(work, folder, tell, seed), json, plot, quick)


@app.command()
def plan(
    size: Annotated[
        list[int] | None, typer.Option(min=1, help="Training examples, once for each; 64, 256, 1024 unless given.")
    ] = None,
    rounds: Rounds = 3,
    quick: Quick = False,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """What `sdi plan` says of three sizes against what the runs take: CPU time, memory, disk, ranking."""
    from .commands.plan import SIZES, measure_plan

    run(lambda tell: measure_plan(rounds, quick, seed, tell, size or SIZES), json, None, quick)


@app.command()
def million(
    examples: Annotated[int, typer.Option(min=1, help="Training examples of the store.")] = 1_000_000,
    folder: Annotated[Path, typer.Option(help="Where to make the store: 52 GB, deleted in the end.")] = Path(".bench"),
    quick: Quick = False,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """A million examples of the 135.1M model at 32 loop steps: planned, then written of random features, and ranked."""
    from .commands.million import measure_million
    from .work.cases import gpt

    check_folder("--folder", folder)
    case, count = (gpt(3, True, seed), 600) if quick else (gpt(32, seed=seed), examples)
    run(lambda tell: measure_million(case, count, folder, tell, seed), json, None, quick)


@app.command()
def ranks(rounds: Rounds = 5, quick: Quick = False, seed: Seed = 0, json: Json = None) -> None:
    """Two ranks of a torch.distributed job, a thread each, against one process with two threads."""
    from .commands.ranks import measure_ranks, ranks_work

    run(lambda tell: measure_ranks(ranks_work(quick, seed), rounds, tell), json, None, quick)


@app.command()
def variants(
    sketch: Annotated[
        list[str] | None,
        typer.Option(help="A shipped name or PATH:CLASS, once for each; all shipped ones unless given."),
    ] = None,
    m: Annotated[list[int] | None, typer.Option(min=1, help="A width, once for each; 64 to 1024 unless given.")] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Sketches for each point.")] = 5,
    rounds: Rounds = 5,
    quick: Quick = False,
    seed: Seed = 0,
    json: Json = None,
    plot: Plot = None,
) -> None:
    """Shipped sketches, and yours, on one looped model: error against bytes and against time."""
    from .commands.variants import measure_variants, variant_work

    work = variant_work(quick, sketch, m, seeds, rounds, seed)
    run(lambda tell: measure_variants(work, tell), json, plot, quick)


@app.command(
    help=f"Looped models drawn at random, against an oracle: right, or refused; never silently wrong. {RESUMES}"
)
def fuzz(
    models: Annotated[int, typer.Option(min=1, help="How many.")] = 10_000,
    files: Annotated[int, typer.Option(min=0, help="Instead: harm files of stores and results, so many times.")] = 0,
    only: Annotated[str, typer.Option(help="Only models with this feature, such as 'side' or 'cell: gate'.")] = "",
    keep: Annotated[Path, typer.Option(help="A folder for scripts that show what went wrong.")] = Path("fuzz-faults"),
    processes: Annotated[int, typer.Option(min=1, help="Models checked at the same time.")] = 2,
    quick: Quick = False,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    from .commands.fuzz import FuzzWork, measure_fuzz

    if files:
        from .commands.fuzz_files import measure_files

        run(lambda tell: measure_files(files, seed, tell), json, None, quick)
        return
    check_folder("--keep", keep)
    ledger = Ledger(json)
    work = FuzzWork(20 if quick else models, seed, only, keep, processes)
    run(lambda tell: measure_fuzz(work, tell, ledger), json, None, quick, ledger)


@app.command()
def report(
    files: Annotated[list[Path], typer.Argument(help="JSON files written by the other commands.")],
    out: Annotated[Path | None, typer.Option(help="A folder to fill: README.md, plots and the JSON files.")] = None,
) -> None:
    """Print measured figures as Markdown, or fill a folder with them and their plots."""
    from .commands.report import markdown, write_report

    check_folder("--out", out)
    records = [Record.load(file) for file in files]
    if out is None:
        print(markdown(records), end="")
    else:
        for file in write_report(records, out):
            print(file)


if __name__ == "__main__":
    app()
