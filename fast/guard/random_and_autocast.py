"""What a call depends on besides its inputs and weights: the random state, and autocast.

A call that is run again in the backward pass must be run under the same ones to give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import torch


def _cuda() -> bool:
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


class RandomState:
    """The state of every generator, as it is now."""

    def __init__(self) -> None:
        self.cpu = torch.get_rng_state()
        self.cuda = torch.cuda.get_rng_state_all() if _cuda() else []

    def restore(self) -> None:
        torch.set_rng_state(self.cpu)
        torch.cuda.set_rng_state_all(self.cuda)

    def has_moved(self) -> bool:
        """Whether random numbers were drawn since."""
        now = RandomState()
        return not all(map(torch.equal, [self.cpu, *self.cuda], [now.cpu, *now.cuda]))


class Ambient:
    """The random state and autocast, as they are now."""

    def __init__(self) -> None:
        self.random = RandomState()
        kinds = ("cpu", "cuda") if _cuda() else ("cpu",)
        self.autocast = [(kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)) for kind in kinds]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Restore both, as they were when this was made, within a block."""
        here = RandomState()
        with ExitStack() as stack:
            stack.callback(here.restore)
            for kind, enabled, dtype in self.autocast:
                stack.enter_context(torch.autocast(kind, enabled=enabled, dtype=dtype, cache_enabled=False))
            self.random.restore()
            yield
