"""demo: a looped transformer learns parity, and each of its loop steps is traced to the strings that shaped it."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sdi.backends import room
from sdi.cli.tables import top_table, trajectory
from sdi.errors import StoreError
from sdi.inputs.checkpoints import find_checkpoints
from sdi.printable import printable
from sdi.report.write import write_report
from sdi.result.result import Result
from sdi.run.attribute import attribute
from sdi.run.one_thread import one_thread
from sdi.scores.standard_error import Z95
from sdi.store.store import Store


def demo(console: Console, keep: Path | None = None, settings: Any = None, report: Path | None = None) -> Result:
    """Train, attribute, check, show.

    keep: a new folder for the checkpoints, the store and the result.
    settings: of `sdi.experiments.parity`; by default its configuration "demo". report: an HTML file to write.
    """
    settings = settings or room("experiments.parity").configuration("demo")
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise StoreError(f"--keep must be a new or empty folder, got {keep}")
    with tempfile.TemporaryDirectory(prefix="sdi-demo-") as scratch:
        folder = keep or Path(scratch)
        with one_thread():
            trained = _train(console, folder / "training", settings)
            result = _attribute(console, folder, settings, trained)
        if report is not None:
            points = find_checkpoints(sorted((folder / "training" / "checkpoints").iterdir()))
            title = "sdi: parity, learned a moment ago"
            write_report(report, result, store=Store(folder / "store"), checkpoints=points, title=title)
            console.print(f"   report {escape(printable(report))}", soft_wrap=True)
        if keep is not None:
            result.save(folder / "result.safetensors")
            console.print(f"   kept in {escape(printable(folder))}", soft_wrap=True)
    console.print("\nNext: [bold]sdi verify[/] checks the theory; README.md: your own model.")
    return result


def _train(console: Console, folder: Path, settings: Any) -> Any:
    parity = room("experiments.parity")
    count = settings.model_config().parameter_count
    console.print(
        f"[bold]1  A looped transformer learns parity[/] — is the number of ones odd?\n"
        f"   One block, applied n times to n bits; {count:,} parameters, from scratch."
    )
    began = time.perf_counter()
    with _bar(console) as show:
        trained = parity.train(folder, settings, show)
    seconds = time.perf_counter() - began
    model = trained.averaged()

    def right(lengths: range) -> str:
        parts = {n: parity.held_out(settings, n, settings.tests) for n in lengths}
        many = sum(map(len, parts.values()))
        known = sum(parity.accuracy(model, strings) * len(strings) for strings in parts.values() if strings)
        return f"[bold]{known / max(many, 1):.1%}[/] of {many} right"

    console.print(
        f"   {trained.at.step} steps in {seconds:.0f} s, up to {trained.at.length} bits. Strings never trained on:\n"
        f"   {right(range(6, settings.longest + 1))} up to {settings.longest} bits, "
        f"{right(range(settings.longest + 1, settings.longest + 5))} at "
        f"{settings.longest + 1} to {settings.longest + 4} bits.\n"
    )
    return trained


def _attribute(console: Console, folder: Path, settings: Any, trained: Any) -> Result:
    parity = room("experiments.parity")
    strings = parity.training_sample(settings)
    probe, *others = (parity.probe(settings.test, pattern) for pattern in ("01", "10", "001"))
    loop = settings.model_config().loop()
    checkpoints = sorted((folder / "training" / "checkpoints").iterdir())
    m = settings.m
    run: Any = partial(
        attribute,
        type(trained.model)(trained.model.config),
        loss=parity.loss,
        loop=loop,
        checkpoints=checkpoints,
        train=parity.make_loader(strings),
        query=parity.make_loader([probe, *others]),
    )
    began = time.perf_counter()
    result: Result = run(m=m, store=folder / "store")
    seconds = time.perf_counter() - began
    steps = len(result.labels["step"])
    parameters = room("fast").body_shapes(trained.model, loop)
    console.print(
        f"[bold]2  Which training strings shaped which step?[/]\n"
        f"   {len(strings)} strings × {1 + len(others)} queries × {steps} steps × {len(checkpoints)} checkpoints "
        f"in {seconds:.1f} s.\n"
        f"   audit: [green]all {len(parameters)} body parameters agree with autograd, and one example alone\n"
        f"   agrees with its batch[/] (first batch of each side; the run stops otherwise)\n"
    )
    best = result.top(5, query=probe, by="absolute")
    first = best.rows[0].train
    console.print(f"   How [bold]{first}[/] acts on each loop step of the query [bold]{probe}[/],")
    console.print(f"   read out at step {settings.test}; [green]positive[/]: training on it lowers the query's loss.")
    at = result.position("train", first), result.position("query", probe)
    console.print(trajectory(result.sdi_values[at].tolist(), result.arrays["stderr"][at].tolist()))
    console.print()
    console.print(top_table(best, result))
    console.print()
    _check(console, result, run(m=m, mode="tracin"), run(backend="exact"), m, sum(map(np.prod, parameters.values())))
    return result


def _check(console: Console, result: Result, tracin: Result, exact: Result, m: int, numbers: int) -> None:
    """Compute and print: whether steps sum to TracIn, zeros after the read-out, sketched against exact, coverage."""
    total = np.abs(tracin.tracin_values).max()
    gap = np.abs(result.tracin_values - tracin.tracin_values).max() / total
    error = np.abs(result.sdi_values - exact.sdi_values)
    live = exact.sdi_values != 0
    inside = (error <= Z95 * result.arrays["stderr"])[live]
    after = np.asarray(exact.labels["step"])[None] > exact.arrays["tau"][:, None] - 2
    zero = bool((result.sdi_values[:, after] == 0).all())
    width = result.info["settings"]["m"]
    console.print(
        f"[bold]3  How sure?[/]\n"
        f"   steps sum to TracIn, computed apart, within {gap:.0e} of the largest\n"
        f"   steps after the read-out are exactly zero: {'yes' if zero else '[red]no[/]'}\n"
        f"   sketched (m={width}) against exact ({numbers:,} numbers a step): "
        f"{relative_error(result.sdi_values, exact.sdi_values):.1%} apart\n"
        f"   {inside.sum():,} of {inside.size:,} exact scores lie within their 95% error bars;\n"
        "   they share one sketch and miss together: see docs/results/error_bars"
    )


@contextmanager
def _bar(console: Console) -> Iterator[Any]:
    """A progress bar on a terminal, removed when done; nothing where the output is no terminal."""
    columns = (TextColumn("   training"), BarColumn(30), TextColumn("{task.fields[words]}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with progress:
        task = progress.add_task("", total=None, words="")

        def show(trainer: Any) -> None:
            at = trainer.at
            progress.update(task, words=f"step {at.step}, {at.length} bits, loss {at.running:.3f}")

        yield show


def relative_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """|estimate - truth| / |truth|, over all entries."""
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(estimate - truth)) / size if size else 0.0
