"""train_blocks: training rows of a store, block by block, straight from the mapped files.

Where rows stand is found for all of them at once, in arrays: a dictionary asked a million times takes a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from sdi.inputs.checkpoints import Checkpoint
from sdi.store.shard_format import decoded
from sdi.store.share import Share
from sdi.store.store import Row, Store, find_row

Array = np.ndarray
BLOCK_BYTES = 64 << 20


def train_blocks(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    train: Sequence[str] | None = None,
    train_steps: tuple[int, int] | None = None,
    share: Share | None = None,
) -> Iterator[tuple[list[str], list[Array]]]:
    """Blocks of training rows: their ids, and at every checkpoint their values, mapped where they stand together.

    train_steps: the first and the last of their steps to sum; None: all, and what enters outside the loop.
    share: of several processes; blocks of other ones are passed over, and their shards not opened.
    """
    share, rows = share or Share(), [store.rows(c.key, "train") for c in checkpoints]
    names = list(rows[0])
    if train is not None:
        wanted = {i for i in train if find_row(rows[0], i, "train")}
        names = [i for i in names if i in wanted]  # in the order in which they are stored
    places = [Places(r, names) for r in rows]
    size = max(1, BLOCK_BYTES // (store.sketch.size * np.result_type(np.float32, store.dtype).itemsize))
    for k, (start, end) in enumerate(places[0].blocks(size)):
        if share.mine(k):
            yield names[start:end], [_block(store, p, start, end, train_steps) for p in places]


class Places:
    """Where training rows stand: each one's shard, by number, and its row there.

    rows: of a checkpoint, by id. names: the ids, in the order in which they are asked for.
    """

    def __init__(self, rows: Mapping[str, Row], names: Sequence[str]) -> None:
        found = list(rows.values()) if len(rows) == len(names) and list(rows) == names else None
        found = [find_row(rows, i, "train") for i in names] if found is None else found
        shards = [row.shard for row in found]
        self.shard: Int[Array, "n"] = np.fromiter(map(id, shards), np.int64, len(found))
        self.row: Int[Array, "n"] = np.fromiter([row.row for row in found], np.int64, len(found))
        self.shards: dict[int, Path] = dict(zip(self.shard.tolist(), shards, strict=True))

    def blocks(self, size: int) -> Iterator[tuple[int, int]]:
        """The first and the last row, plus one, of blocks of at most `size` rows, each within one shard."""
        edges = [0, *(np.flatnonzero(np.diff(self.shard)) + 1).tolist(), len(self.shard)]
        for start, end in pairwise(edges):
            for first in range(start, end, size):
                yield first, min(first + size, end)


def _block(
    store: Store, places: Places, start: int, end: int, train_steps: tuple[int, int] | None
) -> Float[Array, "b D"]:
    shards, rows = places.shard[start:end], places.row[start:end]
    if (shards == shards[0]).all() and (np.diff(rows) == 1).all():
        together = slice(int(rows[0]), int(rows[0]) + len(rows))
        return _gradients(store, places.shards[int(shards[0])], together, train_steps)
    values = np.empty((len(rows), store.sketch.size), dtype=np.result_type(np.float32, store.dtype))
    for shard in np.unique(shards):
        here = np.flatnonzero(shards == shard)
        values[here] = _gradients(store, places.shards[int(shard)], rows[here].tolist(), train_steps)
    return values


def _gradients(
    store: Store, shard: Path, rows: slice | list[int], train_steps: tuple[int, int] | None
) -> Float[Array, "b D"]:
    part = store.open_shard(shard)
    values = decoded(part, "values", rows, store.blocks)
    if train_steps is not None:
        if values.ndim != 3:
            raise ValueError(
                f"store {store.path} holds training examples summed over steps (modes 'query' and 'tracin'), so "
                "train_steps must be None; featurize with mode 'matrix'"
            )
        return values[:, train_steps[0] - 1 : train_steps[1]].sum(axis=1)
    if values.ndim == 3:
        values = values.sum(axis=1) + (decoded(part, "outside", rows, store.blocks) if "outside" in part else 0)
    return values
