"""solved_at: which boards a model solves after which loop steps. A board is solved if all its blanks are right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Int

from .boards import Boards

Array = np.ndarray


def answers(model: Any, boards: Boards, loops: Sequence[int], batch: int = 64) -> Int[Array, "n loops cells"]:
    """The digits the model would say if it stopped after each of `loops` steps, givens as given."""
    wanted = {t: k for k, t in enumerate(loops)}
    tokens = torch.from_numpy(boards.puzzle.astype(np.int64))
    out = np.empty((len(tokens), len(loops), tokens.shape[1]), dtype=np.int64)
    with torch.no_grad():
        for i in range(0, len(tokens), batch):
            some = tokens[i : i + batch]
            x = model.read_in(some) + model.positions(torch.arange(some.shape[1]))
            for t in range(1, max(loops) + 1):
                x = model.core(x)
                if t in wanted:
                    said = model.head(model.norm_out(x)).argmax(dim=-1) + 1
                    out[i : i + batch, wanted[t]] = torch.where(some == 0, said, some).numpy()
    return out


def solved_at(model: Any, boards: Boards, loops: Sequence[int], batch: int = 64) -> Bool[Array, "n loops"]:
    """Whether each board is solved after each of `loops` steps."""
    return (answers(model, boards, loops, batch) == boards.solution[:, None]).all(axis=2)
