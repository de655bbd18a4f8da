"""forward: what the model's state at "=" is after every loop step, and what the read-out would say of it there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float

from .strings import encode, parity_of

Array = np.ndarray


class Unrolled(NamedTuple):
    """States and logits at "=" after every loop step, of strings of one length."""

    h: Float[Array, "n t d"]  # the state at "=" after each step
    logits: Float[Array, "n t classes"]

    def margin(self, parity: Array) -> Float[Array, "n t"]:
        """The logit of the right parity minus that of the wrong one, at each step."""
        rows = np.arange(len(parity))
        return np.asarray(self.logits[rows, :, parity] - self.logits[rows, :, 1 - parity])


def unroll(model: Any, strings: Sequence[str], steps: int, batch: int = 128) -> Unrolled:
    """States and logits of strings of one length after each of `steps` loop steps, in batches of `batch`."""
    parts: list[tuple[Array, Array]] = []
    for i in range(0, len(strings), batch):
        some = strings[i : i + batch]
        states: list[torch.Tensor] = []
        handle = model.loop_norm.register_forward_hook(lambda module, x, y, states=states: states.append(y[:, -1]))
        try:
            with torch.no_grad():
                tau = torch.full((len(some),), steps)
                model({"tokens": encode(some), "tau": tau, "readout": tau})
                h = torch.stack(states, dim=1)
                parts.append((h.double().numpy(), model.head(h).double().numpy()))
        finally:
            handle.remove()
    return Unrolled(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def read_out(model: Any, strings: Sequence[str]) -> Float[Array, "n d"]:
    """The state at "=" at each string's own read-out step."""
    out = np.empty((len(strings), model.config.d))
    lengths = np.array([len(s) for s in strings])
    for n in np.unique(lengths):
        rows = np.flatnonzero(lengths == n)
        out[rows] = unroll(model, [strings[int(i)] for i in rows], int(n)).h[:, -1]
    return out


def accuracy(model: Any, strings: Sequence[str]) -> float:
    """The share of strings, all of one length, whose parity the model gets right."""
    said = unroll(model, strings, len(strings[0])).logits[:, -1].argmax(-1)
    return float((said == parity_of(strings)).mean())
