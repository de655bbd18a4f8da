"""Modules that are run again: what they raise becomes one of our errors, and what they give must be what they gave."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from sdi.errors import CoverageError

OTHER_OUTPUT = (
    "a {} gives another output when it is run again, so it keeps state between calls (a count of steps, a cache); pass "
    "what changes as an argument, or use memory='hooks'"
)
PASSING = (MemoryError, torch.OutOfMemoryError)


@contextmanager
def second_run(module: nn.Module, remedy: str, also: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """CoverageError for any exception within the block that is not ours. remedy: what the user can do.

    also: exceptions that pass, because the caller has words of its own for them.
    """
    try:
        yield
    except PASSING + also:
        raise
    except Exception as error:
        if type(error).__module__.split(".")[0] == "sdi":  # an error of ours, or a word between our own parts
            raise
        words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        raise CoverageError(
            f"a {type(module).__name__} fails when it is run again with the inputs that it had ({words}): it depends "
            f"on something that is used up or changed by its first run; {remedy}"
        ) from error


class SecondOutputs:
    """Refuses modules that gave another output when they were run again.

    At once on a CPU. To read a truth value of another device is to wait for it: there, all are read when the pass ends.
    """

    def __init__(self) -> None:
        self._same: list[tuple[nn.Module, Tensor]] = []

    def expect(self, module: nn.Module, same: Tensor) -> None:
        """same: one truth value, whether the module gave the same output."""
        self._same.append((module, same))
        if same.device.type == "cpu":
            self.check()

    def check(self) -> None:
        """Read the truth values of what was run again since the last time; CoverageError if one is false."""
        same, self._same = self._same, []
        if not same:
            return
        device = same[0][1].device
        for (module, _), true in zip(same, torch.stack([x.to(device) for _, x in same]).tolist(), strict=True):
            if not true:
                raise CoverageError(OTHER_OUTPUT.format(type(module).__name__))
