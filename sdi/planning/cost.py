"""Cost: seconds by the clock, and of the processor, of all threads together."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class Cost(NamedTuple):
    """Seconds by the clock, and CPU seconds of this process."""

    wall: float = 0.0
    cpu: float = 0.0

    def per(self, n: float) -> Cost:
        """The n-th part."""
        return Cost(self.wall / n, self.cpu / n)

    def times(self, n: float) -> Cost:
        """So many times as much."""
        return Cost(self.wall * n, self.cpu * n)

    def over(self, other: Cost) -> Cost:
        """What is more than `other`; not below zero."""
        return Cost(max(0.0, self.wall - other.wall), max(0.0, self.cpu - other.cpu))


def timed(work: Callable[[], T]) -> tuple[T, Cost]:
    """Run `work`: its result, and what it cost."""
    wall, cpu = time.perf_counter(), time.process_time()
    out = work()
    return out, Cost(time.perf_counter() - wall, time.process_time() - cpu)


def mean(costs: list[Cost]) -> Cost:
    """The mean of some costs.

    >>> mean([Cost(1.0, 2.0), Cost(3.0, 4.0)])
    Cost(wall=2.0, cpu=3.0)
    """
    return Cost(*(sum(part) / len(costs) for part in zip(*costs, strict=True)))
