"""StepCount: the number of a loop step, and of one in a loop within a loop, fixed when the step begins."""

from __future__ import annotations

from sdi.errors import CoverageError


class StepCount:
    """Counts steps. With `inner`, a cycle of the outer loop has room for so many: step k of cycle c is always number
    (c - 1) * inner + k, however many steps the cycles before it took.

    >>> count = StepCount(3)
    >>> count.begin_step(), count.begin_step()
    (1, 2)
    >>> count.begin_cycle()
    >>> count.begin_step(), count.seen
    (4, 6)
    """

    def __init__(self, inner: int | None = None) -> None:
        self.inner = inner
        self.step = 0  # the last that has begun
        self.seen = 0  # the largest so far, up to the end of its cycle
        self._before = 0  # numbers that belong to earlier cycles

    def restart(self) -> None:
        """Count from 1 again."""
        self.step = self._before = 0

    def begin_cycle(self) -> None:
        """The next step is the first of a cycle, which it is already if none has been taken in this one."""
        if self.inner is not None and self.step > self._before:
            self._before += self.inner
            self.step = self._before

    def begin_step(self) -> int:
        """The number of the step that begins, from 1."""
        if self.inner is not None and self.step == self._before + self.inner:
            raise CoverageError(
                f"cycle {self._before // self.inner + 1} of the outer loop takes more than Loop(inner={self.inner}) "
                "steps; inner must be the largest number of steps in a cycle"
            )
        self.step += 1
        self.seen = max(self.seen, self.step if self.inner is None else self._before + self.inner)
        return self.step
