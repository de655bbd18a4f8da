"""second_run: whatever a module raises when it is run again becomes one of our errors, with its name and the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from sdi.errors import CoverageError

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
