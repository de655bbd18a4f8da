"""Progress of long work: what is being done, how far it is, and how long it will take."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """How far a part of the work is; passed to `progress`.

    >>> str(Progress("retraining", 3, 12, 95.0))
    'retraining: 3 of 12, 1 min 35 s left'
    """

    what: str
    done: float
    of: int
    left: float | None  # seconds, as the work so far suggests

    def __str__(self) -> str:
        share = f"{self.what}: {self.done:.4g} of {self.of}"
        if self.left is None:
            return share
        minutes, seconds = divmod(round(self.left), 60)
        return f"{share}, {f'{minutes} min ' if minutes else ''}{seconds} s left"


Tell = Callable[[Progress], None]


def silent(progress: Progress) -> None:
    """Tell nobody."""


def counting(what: str, tell: Tell) -> Callable[[float, int], None]:
    """A function of (done, of how many) that tells of progress, with the time left. what: begins each line."""
    began = time.monotonic()
    start: list[float] = []  # what was done already when the clock began

    def told(done: float, of: int) -> None:
        if not start:
            start.append(done if done < of else 0)
        made = done - start[0]
        left = (time.monotonic() - began) / made * (of - done) if made > 0 else None
        tell(Progress(what, done, of, left))

    return told
