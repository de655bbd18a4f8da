"""A progress bar for long runs: share done, examples per second, time left. Only if stderr is a terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sdi.run.fill import Progress as Step


@contextmanager
def run_bar(batches: int | None, passes: int, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
    """A function to call after every batch, which moves the bar.

    batches: in one pass over training and query sides, to estimate the time left; None if unknown.
    passes: how many passes the run makes. quiet: show nothing.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        TextColumn("{task.percentage:>3.0f}%" if batches else ""),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as progress:
        task = progress.add_task("starting", total=batches * passes if batches else None, rate="")
        began, made, last = time.monotonic(), 0, (0, "", 0)

        def show(step: Step) -> None:
            nonlocal made, last
            fresh = step.done - step.reused
            same = last[:2] == (step.checkpoint, step.side) and fresh >= last[2]
            made += fresh - (last[2] if same else 0)
            last = (step.checkpoint, step.side, fresh)
            rate = made / max(time.monotonic() - began, 1e-9)
            words = f"checkpoint {step.checkpoint}/{step.checkpoints} {step.side:<5} {step.done:>6}"
            progress.update(task, advance=1, description=words, rate=f"{rate:.1f}/s" if made else "reused")

        yield show


@contextmanager
def status(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A status line on stderr while the block runs; nothing if stderr is no terminal, or if quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as line:
        yield line.update
