"""The boards of a run: made or loaded, split by difficulty, sampled, relabelled for a control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from .boards import Boards, generate
from .settings import Settings

Array = np.ndarray
SPLIT, SAMPLE, LABELS, STEPS, MOVED = range(5)  # streams of random numbers of one seed


class Split(NamedTuple):
    """The easiest boards and the hardest."""

    train: Boards
    test: Boards


def split(settings: Settings, boards: Boards | None = None) -> Split:
    """The boards of a run, sorted by their blanks: the easiest for training, the hardest for the test, each shuffled.

    boards: SATNet's, or by default generated ones, which `settings.boards`, `size` and `seed` fix.
    """
    boards = generate(settings.boards, settings.size, settings.seed) if boards is None else boards
    rng = np.random.default_rng([settings.seed, SPLIT])
    order = rng.permutation(len(boards.puzzle))  # which of those equally difficult go where is a matter of chance
    order = order[np.argsort(boards.missing[order], kind="stable")]
    first = round(settings.train_share * len(order))
    train, test = boards.take(rng.permutation(order[:first])), boards.take(rng.permutation(order[first:]))
    return Split(relabelled(settings, train), test)


def relabelled(settings: Settings, boards: Boards) -> Boards:
    """What training says of the boards: their solutions, or in the control those of others with as many blanks."""
    if settings.labels == "true":
        return boards
    rng = np.random.default_rng([settings.seed, LABELS])
    return Boards(boards.puzzle, boards.solution[permuted_within(boards.missing, rng)])


def permuted_within(groups: Int[Array, "n"], rng: np.random.Generator) -> Int[Array, "n"]:
    """A random permutation of n rows that moves every row within its group, and to another place if it can.

    >>> permuted_within(np.array([7, 7, 3]), np.random.default_rng(0)).tolist()
    [1, 0, 2]
    """
    out = np.arange(len(groups))
    for group in np.unique(groups):
        rows = rng.permutation(np.flatnonzero(groups == group))
        out[rows] = np.roll(rows, 1)
    return out


def stratified(missing: Int[Array, "n"], count: int, rng: np.random.Generator) -> Int[Array, "count"]:
    """`count` rows, spread over the numbers of blanks as evenly as these allow, in order.

    >>> sorted(np.array([1, 1, 1, 2])[stratified(np.array([1, 1, 1, 2]), 2, np.random.default_rng(0))].tolist())
    [1, 2]
    """
    if not 1 <= count <= len(missing):
        raise ValueError(f"count must be from 1 to the number of boards, {len(missing)}, got {count}")
    rank = np.empty(len(missing), dtype=int)  # of a board among those with as many blanks
    for value in np.unique(missing):
        rows = np.flatnonzero(missing == value)
        rank[rng.permutation(rows)] = np.arange(len(rows))
    return np.sort(np.lexsort((rng.random(len(missing)), rank))[:count])


def bins(missing: Sequence[int] | Array, count: int = 3) -> list[tuple[int, int]]:
    """About equally full bins of numbers of blanks, lowest and highest of each, easiest first.

    >>> bins([46] * 6 + [47] * 4 + [48] * 8 + [49] * 5 + [50] * 4)
    [(46, 47), (48, 48), (49, 50)]
    """
    values, many = np.unique(np.asarray(missing), return_counts=True)
    share = (np.cumsum(many) - many / 2) / many.sum()  # the middle of each value
    which = np.minimum((share * count).astype(int), count - 1)
    return [(int(values[which == k].min()), int(values[which == k].max())) for k in np.unique(which)]
