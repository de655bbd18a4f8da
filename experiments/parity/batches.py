"""Batches of bit strings, and their loss.

An example is n bits, "=" and padding. The state at "=" is read out after n loop steps and must say the parity; later
steps are causally unused, so their influence is exactly zero. There are no positions: the loop has to do the counting.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from sdi.backends import room

from .settings import EXTRA
from .strings import EQUALS, parity_of

PAD = 3
Loader = list[dict[str, Any]]


def make_batch(strings: Sequence[str], labels: np.ndarray | None = None, extra: int = EXTRA) -> dict[str, Any]:
    """A batch of bit strings, each with itself as its id. Each loops `extra` steps beyond its read-out.

    strings: of bits, such as "0110".
    labels: what the model should say of each string; by default its parity.
    """
    length = max(map(len, strings)) + 2
    rows = [[int(b) for b in s] + [EQUALS] + [PAD] * (length - len(s) - 1) for s in strings]
    n, each = torch.tensor([len(s) for s in strings]), torch.arange(len(strings))
    targets = torch.zeros(len(strings), length, dtype=torch.long)
    targets[each, n] = torch.from_numpy(parity_of(strings) if labels is None else labels)
    mask = torch.zeros(len(strings), length)
    mask[each, n] = 1.0
    return {
        "id": list(strings), "tokens": torch.tensor(rows), "targets": targets, "mask": mask,
        "tau": n + extra, "readout": n,
    }  # fmt: skip


def make_loader(strings: Sequence[str], labels: np.ndarray | None = None, batch: int = 32) -> Loader:
    """Batches of strings of similar length, each read out after as many steps as it has bits.

    strings: of bits. labels: what the model should say of each; by default its parity. batch: examples per batch.
    """
    labels = parity_of(strings) if labels is None else labels
    order = sorted(range(len(strings)), key=lambda i: len(strings[i]))
    parts = [order[k : k + batch] for k in range(0, len(order), batch)]
    return [make_batch([strings[i] for i in rows], labels[rows]) for rows in parts]


def loss(model: Any, batch: Any) -> Any:
    """Cross-entropy of the parity at "=", one value per example. model: gives logits for a batch of `make_batch`."""
    return room("fast").token_cross_entropy(model, batch)
