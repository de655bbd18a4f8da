"""A status line for commands that take a while; where stderr is no terminal, a line a minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from sdi.run.minute_lines import minute_lines


@contextmanager
def status(quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A status line on stderr while the block runs; a line a minute if stderr is no terminal; nothing if quiet."""
    console = Console(stderr=True)
    if quiet:
        yield lambda text: None
        return
    if not console.is_terminal:
        yield minute_lines()
        return
    with console.status("") as line:
        yield line.update
