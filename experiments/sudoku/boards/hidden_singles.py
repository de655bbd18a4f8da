"""rounds: how deep a board is, as rounds of hidden singles in parallel.

In a round, every value that has only one place left in a row, column or box is put there, all at once.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Int

from .grid import Grid, grid_of

Array = np.ndarray
CHUNK = 500  # boards looked at together: n x cells x size numbers


def rounds(puzzle: Int[Array, "n cells"], size: int) -> Int[Array, "n"]:
    """Rounds of hidden singles until each board is solved; -1 where they do not suffice.

    puzzle: boards (n, cells), 0 is a blank. size: digits.
    """
    after = solved_after(puzzle, size)
    return np.where((after < 0).any(axis=1), -1, after.max(axis=1))


def solved_after(puzzle: Int[Array, "n cells"], size: int) -> Int[Array, "n cells"]:
    """The round after which each cell is known: 0 for a given, -1 for one that hidden singles never find.

    >>> solved_after(np.array([[1, 0, 3, 4, 3, 4, 0, 2, 2, 1, 4, 3, 4, 3, 2, 0]]), 4)[0, :4].tolist()
    [0, 1, 0, 0]
    """
    grid = grid_of(size)
    out = np.where(puzzle > 0, 0, -1)
    for i in range(0, len(puzzle), CHUNK):
        rows, now = slice(i, i + CHUNK), puzzle[i : i + CHUNK].copy()
        for step in range(1, grid.cells + 1):
            new = hidden_singles(grid, now)
            if not new.any():
                break
            now = np.where(new > 0, new, now)
            out[rows][new > 0] = step
    return out


def hidden_singles(grid: Grid, puzzle: Int[Array, "n cells"]) -> Int[Array, "n cells"]:
    """The digit of every blank that is the only place for it in a row, column or box; 0 elsewhere."""
    n, size = len(puzzle), grid.size
    there = puzzle[:, :, None] == np.arange(1, size + 1)  # (n, cells, size)
    fits = np.broadcast_to((puzzle == 0)[:, :, None], there.shape).copy()
    for members, unit in zip(grid.members, grid.unit, strict=True):
        fits &= ~there[:, members].any(axis=2)[:, unit]
    only = np.zeros_like(fits)
    for members, unit in zip(grid.members, grid.unit, strict=True):
        places = fits[:, members].sum(axis=2)  # (n, size units, size digits)
        only |= fits & (places[:, unit] == 1)
    return np.where(only.any(axis=2), only.argmax(axis=2) + 1, 0).reshape(n, grid.cells)
