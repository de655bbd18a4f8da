"""Grid: the shape of a Sudoku board and its units (rows, columns, boxes)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Int

Array = np.ndarray


@dataclass(frozen=True)
class Grid:
    """A square board of `size` digits whose boxes are `height` rows by `width` columns.

    >>> Grid(2, 3).size, Grid(2, 3).cells
    (6, 36)
    """

    height: int
    width: int

    @property
    def size(self) -> int:
        return self.height * self.width

    @property
    def cells(self) -> int:
        return self.size**2

    @cached_property
    def unit(self) -> Int[Array, "3 cells"]:
        """The row, the column and the box of each cell, from 0.

        >>> Grid(2, 2).unit[:, 6].tolist()
        [1, 2, 1]
        """
        row, column = np.divmod(np.arange(self.cells), self.size)
        box = row // self.height * self.height + column // self.width
        return np.stack([row, column, box])

    @cached_property
    def members(self) -> Int[Array, "3 size size"]:
        """members[kind, i]: the cells of the i-th row, column or box."""
        order = np.argsort(self.unit, axis=1, kind="stable")
        return order.reshape(3, self.size, self.size)

    @cached_property
    def peers(self) -> Int[Array, "cells peers"]:
        """The cells that share a unit with each cell.

        >>> Grid(3, 3).peers.shape
        (81, 20)
        """
        same = (self.unit[:, :, None] == self.unit[:, None, :]).any(axis=0)
        np.fill_diagonal(same, False)
        return np.nonzero(same)[1].reshape(self.cells, -1)


GRIDS: dict[int, Grid] = {4: Grid(2, 2), 6: Grid(2, 3), 9: Grid(3, 3)}


def grid_of(size: int) -> Grid:
    """The grid with `size` digits: 4, 6 or 9."""
    if size not in GRIDS:
        raise ValueError(f"size must be one of {tuple(GRIDS)}, got {size}")
    return GRIDS[size]
