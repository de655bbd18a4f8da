"""Progress where nobody watches, in a log: a line with the time, at most one a minute, on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

MINUTE = 60.0


def minute_lines() -> Callable[[str], None]:
    """A function to call as often as one likes with what is being done. The first line comes after a minute."""
    last = time.monotonic()

    def tell(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= MINUTE:
            last = now
            print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)

    return tell
