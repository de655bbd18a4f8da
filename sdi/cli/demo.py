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
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sdi import parity
from sdi.backends import room
from sdi.cli.tables import top_table, trajectory
from sdi.errors import StoreError
from sdi.parity import Parity, Trained
from sdi.result.result import Result
from sdi.run.attribute import attribute
from sdi.run.one_thread import one_thread
from sdi.scores.standard_error import Z95


def demo(
    console: Console, keep: Path | None = None, task: Parity | None = None, examples: int = 64, m: int = 512
) -> Result:
    """Train, attribute, check, show. `keep` is a new folder for the checkpoints, the store and the result."""
    task = task or Parity()
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise StoreError(f"--keep must be a new or empty folder, got {keep}")
    with tempfile.TemporaryDirectory(prefix="sdi-demo-") as scratch:
        folder = keep or Path(scratch)
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        with one_thread():
            trained = _train(console, folder / "checkpoints", task)
            result = _attribute(console, folder, task, trained, examples, m)
        if keep is not None:
            result.save(folder / "result.safetensors")
            console.print(f"   kept in {folder}", soft_wrap=True)
    console.print("\nNext: [bold]sdi verify[/] checks the theory; README.md: your own model.")
    return result


def _train(console: Console, folder: Path, task: Parity) -> Trained:
    count = task.config.parameter_count
    console.print(
        f"[bold]1  A looped transformer learns parity[/] — is the number of ones odd?\n"
        f"   One block, applied n times to n bits; {count:,} parameters, from scratch."
    )
    began = time.perf_counter()
    with _bar(console) as show:
        trained = parity.train_parity(folder, task, show)
    seconds = time.perf_counter() - began
    known = [s for n in range(6, task.longest + 1) for s in parity.held_out(n, task.seed)]
    known = known or [s for n in range(parity.SHORTEST, task.longest + 1) for s in parity.pool(n, task.seed)]
    longer = [s for n in range(task.longest + 1, task.longest + 5) for s in parity.held_out(n, task.seed)]
    console.print(
        f"   {trained.steps} steps in {seconds:.0f} s, up to {trained.length} bits. Strings never trained on:\n"
        f"   [bold]{parity.accuracy(trained.model, known):.1%}[/] of {len(known)} right up to {task.longest} bits, "
        f"[bold]{parity.accuracy(trained.model, longer):.1%}[/] of {len(longer)} right at "
        f"{task.longest + 1} to {task.longest + 4} bits.\n"
    )
    return trained


def _attribute(console: Console, folder: Path, task: Parity, trained: Trained, examples: int, m: int) -> Result:
    strings = choose_strings(task, examples)
    probe = parity.alternating(task.longest)
    queries = [probe, *(parity.alternating(task.longest, p) for p in ("10", "001"))]
    loop = task.config.loop()
    run: Any = partial(
        attribute,
        task.model(),
        loss=parity.loss,
        loop=loop,
        checkpoints=trained.checkpoints,
        train=parity.make_loader(strings),
        query=parity.make_loader(queries),
    )
    began = time.perf_counter()
    result: Result = run(m=m, store=folder / "store")
    seconds = time.perf_counter() - began
    steps = len(result.sdi.coords["step"])
    parameters = room("fast").body_shapes(trained.model, loop)
    console.print(
        f"[bold]2  Which training strings shaped which step?[/]\n"
        f"   {examples} strings × {len(queries)} queries × {steps} steps × {len(trained.checkpoints)} checkpoints "
        f"in {seconds:.1f} s.\n"
        f"   audit: [green]all {len(parameters)} body parameters agree with autograd, and one example alone\n"
        f"   agrees with its batch[/] (first batch of each side; the run stops otherwise)\n"
    )
    best = result.top(5, query=probe, by="absolute")
    first = best.rows[0].train
    console.print(f"   How [bold]{first}[/] acts on each loop step of the query [bold]{probe}[/],")
    console.print(f"   read out at step {task.longest}; [green]positive[/]: training on it lowers the query's loss.")
    at = {"train": first, "query": probe}
    console.print(trajectory(result.sdi.sel(**at).values.tolist(), result.stderr.sel(**at).values.tolist()))
    console.print()
    console.print(top_table(best, result))
    console.print()
    _check(console, result, run(m=m, mode="tracin"), run(backend="exact"), m, sum(map(np.prod, parameters.values())))
    return result


def _check(console: Console, result: Result, tracin: Result, exact: Result, m: int, numbers: int) -> None:
    """What is printed here is computed here."""
    total = np.abs(tracin.tracin.values).max()
    gap = np.abs(result.tracin.values - tracin.tracin.values).max() / total
    error = np.abs(result.sdi.values - exact.sdi.values)
    live = exact.sdi.values != 0
    inside = (error <= Z95 * result.stderr.values)[live]
    after = np.asarray(exact.sdi.coords["step"])[None] > np.asarray(exact.tau.values)[:, None] - 2
    zero = bool((result.sdi.values[:, after] == 0).all())
    width = result.info["settings"]["m"]
    console.print(
        f"[bold]3  How sure?[/]\n"
        f"   steps sum to TracIn, computed apart, within {gap:.0e} of the largest\n"
        f"   steps after the read-out are exactly zero: {'yes' if zero else '[red]no[/]'}\n"
        f"   sketched (m={width}) against exact ({numbers:,} numbers a step): "
        f"{relative_error(result.sdi.values, exact.sdi.values):.1%} apart\n"
        f"   {inside.sum():,} of {inside.size:,} exact scores lie within their 95% error bars"
    )


def choose_strings(task: Parity, count: int) -> list[str]:
    """Different strings of the training pool, lengths drawn evenly."""
    rng = np.random.default_rng([task.seed, 7])
    lengths = range(max(parity.SHORTEST, task.longest // 3), task.longest + 1)
    pools = {n: parity.pool(n, task.seed) for n in lengths}
    if count > sum(map(len, pools.values())):
        raise ValueError(
            f"examples must be at most {sum(map(len, pools.values()))}, the strings there are, got {count}"
        )
    chosen: dict[str, None] = {}
    while len(chosen) < count:
        strings = pools[int(rng.choice(list(lengths)))]
        chosen.setdefault(strings[rng.integers(len(strings))])
    return list(chosen)


@contextmanager
def _bar(console: Console) -> Iterator[Any]:
    """A bar on a terminal, nothing elsewhere; it leaves no trace."""
    columns = (TextColumn("   training"), BarColumn(30), TextColumn("{task.fields[words]}"), TimeElapsedColumn())
    progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    with progress:
        task = progress.add_task("", total=None, words="")

        def show(step: int, length: int, loss: float) -> None:
            progress.update(task, words=f"step {step}, {length} bits, loss {loss:.3f}")

        yield show


def relative_error(estimate: np.ndarray, truth: np.ndarray) -> float:
    """|estimate - truth| / |truth|, over all entries."""
    size = float(np.linalg.norm(truth))
    return float(np.linalg.norm(estimate - truth)) / size if size else 0.0
