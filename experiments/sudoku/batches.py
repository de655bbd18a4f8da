"""Batches of boards for `sdi.attribute`, and their loss: mean cross-entropy of the blanks after the last loop step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from sdi.backends import room

from .boards import Boards

Loader = list[dict[str, Any]]


def make_loader(boards: Boards, batch: int = 32) -> Loader:
    """Batches of `batch` boards; the id of a board is its puzzle."""
    names = boards.ids()
    tokens = torch.from_numpy(boards.puzzle.astype(np.int64))
    targets = torch.from_numpy(boards.solution.astype(np.int64)) - 1
    mask = (tokens == 0).float()
    parts = [slice(i, i + batch) for i in range(0, len(names), batch)]
    return [{"id": names[p], "tokens": tokens[p], "targets": targets[p], "mask": mask[p]} for p in parts]


def show(example: Mapping[str, Any]) -> list[list[str]]:
    """A board for `sdi.write_report`: its rows, blanks empty. example: one of `make_loader`'s boards.

    >>> show({"tokens": np.array([1, 0, 2, 0])})
    [['1', ''], ['2', '']]
    """
    cells = [str(int(x)) if x else "" for x in example["tokens"]]
    size = math.isqrt(len(cells))
    return [cells[k : k + size] for k in range(0, len(cells), size)]


def loss(model: Any, batch: Any) -> Any:
    """Mean cross-entropy of a board's blanks, one value per board. model: gives logits for a batch of `make_loader`."""
    return room("fast").token_cross_entropy(model, batch)


def losses(model: Any, boards: Boards) -> np.ndarray:
    """The loss of each board."""
    with torch.no_grad():
        return np.concatenate([loss(model, batch).double().numpy() for batch in make_loader(boards)])
