"""A progress bar for long runs: share done, examples per second, time left. In a log, a line a minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from sdi.run.fill import Progress as Step
from sdi.run.minute_lines import minute_lines

Tell = Callable[[Step], None]


def telling(progress: Tell | bool, loaders: Iterable[Any], passes: int) -> AbstractContextManager[Tell]:
    """What `attribute` calls after every batch: the user's function; with True, a bar; with False, nothing."""
    if progress is True:
        return run_bar(count_batches(loaders), passes)
    if progress is False or progress is None:
        return nullcontext(lambda step: None)
    if not callable(progress):
        raise TypeError(f"progress must be True, False or a function of one argument, got {progress!r}")
    return nullcontext(progress)


def count_batches(loaders: Iterable[Any]) -> int | None:
    """The batches of all loaders; None if one of them has no length."""
    total = 0
    for loader in loaders:
        try:
            count = len(loader) if isinstance(loader, Sized) else None
        except TypeError:  # a DataLoader over a stream
            count = None
        if count is None:
            return None
        total += count
    return total


@contextmanager
def run_bar(batches: int | None, passes: int, quiet: bool = False) -> Iterator[Callable[[Step], None]]:
    """A function to call after every batch, which moves the bar.

    batches: in one pass over training and query sides, to estimate the time left; None if unknown.
    passes: how many passes the run makes. quiet: show nothing.
    """
    from rich.console import Console  # not at the top: `import sdi` loads no rich
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(20),
        TextColumn("{task.percentage:>3.0f}%" if batches else ""),
        TextColumn("{task.fields[rate]}"),
        TimeRemainingColumn(compact=True),
    )
    hidden = quiet or not (console.is_terminal or console.is_jupyter)
    with Progress(*columns, console=console, transient=True, disable=hidden) as progress:
        task = progress.add_task("starting", total=batches * passes if batches else None, rate="")
        lines = minute_lines()
        began, made, last = time.monotonic(), 0, (0, "", 0)

        def show(step: Step) -> None:
            nonlocal made, last
            fresh = step.made
            same = last[:2] == (step.checkpoint, step.side) and fresh >= last[2]
            made += fresh - (last[2] if same else 0)
            last = (step.checkpoint, step.side, fresh)
            rate = made / max(time.monotonic() - began, 1e-9)
            words = f"checkpoint {step.checkpoint}/{step.checkpoints} {step.side:<5} {step.done:>6}"
            if hidden and not quiet:
                lines(f"{words.strip()}, {rate:.1f} examples/s" if made else f"{words.strip()}, reused")
            progress.update(task, advance=1, description=words, rate=f"{rate:.1f}/s" if made else "reused")

        yield show
