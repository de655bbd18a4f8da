"""CPU time that other processes took while something was measured.

A parallel region of two threads on two cores waits for the slower one: a neighbour that takes a tenth of a core can
make small kernels ten times slower. Such a run must be seen to be what it is.
"""

from __future__ import annotations

import os
from time import perf_counter
from types import TracebackType

QUIET = 0.05  # of one core


class Bystanders:
    """Between enter and exit: CPU seconds that were neither ours nor our children's, per second. Linux only."""

    share: float | None = None

    def __enter__(self) -> Bystanders:
        self._start = perf_counter(), _busy(), _own()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        wall, busy, own = self._start
        now = _busy()
        if busy is not None and now is not None:
            self.share = max(0.0, (now - busy) - (_own() - own)) / max(perf_counter() - wall, 1e-9)

    @property
    def says(self) -> str:
        return "unknown" if self.share is None else f"{self.share:.2f} of a core"

    @property
    def disturbed(self) -> bool:
        return self.share is not None and self.share > QUIET


def _own() -> float:
    """CPU seconds of this process and of its ended children."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _busy() -> float | None:
    """CPU seconds of all processes: user, nice, system and interrupts."""
    try:
        with open("/proc/stat") as lines:
            ticks = [int(x) for x in next(lines).split()[1:]]
    except OSError:
        return None
    user, nice, system, _idle, _wait, irq, softirq = ticks[:7]
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")
