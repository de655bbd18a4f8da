"""generate: boards with exactly one solution, with the blank statistics of SATNet's; all boards in lockstep.

A board is a solved grid from which cells are blanked in one pass over them in random order: a cell is blanked if no
other blank of its row, or of its column, could hold its value. Undone in reverse, every blank is the only place for its
value in a row or a column, so the solution is unique.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from .grid import Grid, grid_of

Array = np.ndarray
CHUNK = 1000  # boards that are made together; a generator's boards do not depend on how many are asked beyond it
TRIES = 200  # passes until every grid of a chunk is solved; one pass solves most


class Boards(NamedTuple):
    """n boards: digits from 1, row by row; 0 is a blank."""

    puzzle: Int[Array, "n cells"]
    solution: Int[Array, "n cells"]

    @property
    def blank(self) -> Bool[Array, "n cells"]:
        return self.puzzle == 0

    @property
    def missing(self) -> Int[Array, "n"]:
        """The number of blanks of each board: the paper's difficulty."""
        return self.blank.sum(axis=1)

    def take(self, rows: Array) -> Boards:
        return Boards(self.puzzle[rows], self.solution[rows])

    def ids(self) -> list[str]:
        """A name for each board: its puzzle, with dots for blanks."""
        return ["".join("." if x == 0 else str(x) for x in row) for row in self.puzzle.tolist()]


def generate(count: int, size: int = 9, seed: int = 0) -> Boards:
    """`count` different boards of `size` digits, each with exactly one solution, fixed by `seed`.

    >>> generate(2, size=4).puzzle.shape
    (2, 16)
    """
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    grid = grid_of(size)
    found: dict[bytes, Array] = {}
    for chunk in range(count // CHUNK * 10 + 20):
        rng = np.random.default_rng([seed, size, chunk])
        solution = solved_grids(grid, CHUNK, rng)
        puzzle = blanked(grid, solution, rng)
        for x, y in zip(puzzle, solution, strict=True):
            found.setdefault(x.tobytes(), np.stack([x, y]))
        if len(found) >= count:
            both = np.stack(list(found.values())[:count])
            return Boards(both[:, 0], both[:, 1])
    raise ValueError(f"count: could not find {count} different boards of {size} digits, only {len(found)}")


def solved_grids(grid: Grid, n: int, rng: np.random.Generator) -> Int[Array, "n cells"]:
    """Random solved grids: always the cell with the fewest digits left, ties and digits at random; dead ends anew."""
    out = np.zeros((n, grid.cells), dtype=np.uint8)
    todo = np.arange(n)
    for _ in range(TRIES):
        tried = _one_try(grid, len(todo), rng)
        done = (tried > 0).all(axis=1)
        out[todo[done]] = tried[done]
        todo = todo[~done]
        if not len(todo):
            return out
    raise AssertionError(f"{len(todo)} of {n} grids met a dead end {TRIES} times")


def _one_try(grid: Grid, n: int, rng: np.random.Generator) -> Int[Array, "n cells"]:
    """Fill n empty grids greedily. A grid at a dead end keeps a 0."""
    size, rows = grid.size, np.arange(n)
    value = np.zeros((n, grid.cells), dtype=np.uint8)
    left = np.full((n, grid.cells), 2**size - 1, dtype=np.uint16)  # bit v: digit v + 1 may stand there
    count = np.array([code.bit_count() for code in range(2**size)], dtype=np.float32)  # of digits left
    peers = grid.peers
    for _ in range(grid.cells):
        few = count[left] + rng.random((n, grid.cells), dtype=np.float32) / 2
        few[value > 0] = np.inf
        cell = few.argmin(axis=1)
        bits = (left[rows, cell][:, None] >> np.arange(size)) & 1
        digit = (bits * (1 - rng.random((n, size)))).argmax(axis=1)
        alive = bits.any(axis=1)
        value[rows[alive], cell[alive]] = digit[alive] + 1
        near = peers[cell]  # (n, peers of a cell)
        left[rows[:, None], near] &= ~(1 << digit).astype(np.uint16)[:, None]
    return value


def blanked(grid: Grid, solution: Int[Array, "n cells"], rng: np.random.Generator) -> Int[Array, "n cells"]:
    """Puzzles of solved grids, by one pass over their cells in random order.

    grid: the shape. solution: solved grids (n, cells). rng: of the order.
    """
    n, size = len(solution), grid.size
    rows = np.arange(n)
    puzzle = solution.copy()
    given = np.ones((3, n, size, size + 1), dtype=bool)  # given[kind, i, u, v]: v stands in that row, column or box u
    order = rng.permuted(np.broadcast_to(np.arange(grid.cells), (n, grid.cells)), axis=1)
    for cell in order.T:
        value = solution[rows, cell]
        unit = grid.unit[:, cell]  # (3, n)
        only = np.zeros(n, dtype=bool)
        for kind in (0, 1):
            others = grid.members[kind][unit[kind]]  # (n, size): cells of that row or column
            held = puzzle[rows[:, None], others] > 0  # the cell itself is still given, so it is held, too
            for cross in (1 - kind, 2):
                theirs = grid.unit[cross][others]  # (n, size)
                own = theirs == unit[cross][:, None]  # a unit it shares with the cell: there, its value is taken away
                held |= given[cross][rows[:, None], theirs, value[:, None]] & ~own
            only |= held.all(axis=1)
        gone = rows[only]
        puzzle[gone, cell[only]] = 0
        for kind in range(3):
            given[kind, gone, unit[kind, only], value[only]] = False
    return puzzle
