"""A status line for commands that take a while. Only if stderr is a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def status(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A status line on stderr while the block runs; nothing if stderr is no terminal, or if quiet."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda text: None
        return
    with console.status("") as line:
        yield line.update
