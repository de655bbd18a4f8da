"""What a call depends on besides its inputs and weights: the random state, and autocast.

A call that is run again in the backward pass must be run under the same ones to give the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any

import torch


@cache
def accelerator_kind() -> str | None:
    """The kind of accelerator that this machine has, such as "cuda" or "mps"; None on a CPU alone."""
    if not hasattr(torch, "accelerator"):  # before PyTorch 2.6
        return "cuda" if torch.cuda.is_available() else None
    found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    return None if found is None else found.type


def accelerator() -> tuple[str, Any] | None:
    """The kind of this machine's accelerator, and its module (torch.cuda, torch.mps); None where none was used yet."""
    kind = accelerator_kind()
    module = None if kind is None else getattr(torch, kind)
    used = module is not None and getattr(module, "is_initialized", lambda: True)()
    return (str(kind), module) if used else None


class RandomState:
    """The state of every generator, as it is now."""

    def __init__(self) -> None:
        self.states = [torch.get_rng_state()]
        found = accelerator()
        if found is not None:
            kind, module = found
            devices = range(module.device_count())
            self.states += [module.get_rng_state()] if kind == "mps" else [module.get_rng_state(i) for i in devices]

    def restore(self) -> None:
        torch.set_rng_state(self.states[0])
        found = accelerator()
        for i, state in enumerate(self.states[1:]):
            assert found is not None
            kind, module = found
            module.set_rng_state(state) if kind == "mps" else module.set_rng_state(state, i)

    def has_moved(self) -> bool:
        """Whether random numbers were drawn since."""
        now = RandomState().states
        return not all(map(torch.equal, self.states, now))


class Ambient:
    """The random state and autocast, as they are now."""

    def __init__(self) -> None:
        self.random = RandomState()
        found = accelerator()
        kinds = ("cpu",) if found is None else ("cpu", found[0])
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
