"""What writing to a store and ranking from it cost, timed on small stores of the timed features in a scratch folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from sdi.inputs.checkpoints import Checkpoint
from sdi.planning.cost import Cost, mean, timed
from sdi.planning.store_bytes import split_shards
from sdi.planning.timed_side import TimedSide
from sdi.result.stream_top import stream_top
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features
from sdi.store.store import Store

POINT, SECOND = (Checkpoint(path=Path("plan"), eta=1.0, fingerprint=digit * 64) for digit in "01")
SHARD_BYTES = 64 << 20  # of features in a shard of such a store, if a real one's is larger
ROWS, SHARDS = 1024, (3, 9)  # so many rows, in at least and at most so many shards
MOST_QUERIES, ROUNDS = 8, 3


@dataclass(frozen=True)
class TimedStore:
    """Writing an example of each side; passing a training example by, at one checkpoint; and what a query adds, once
    and at each checkpoint."""

    write: dict[str, Cost]
    row: Cost | None  # sha256, product and merge, for all queries; None where the store cannot be streamed
    query: Cost | None  # at one checkpoint
    begin: Cost  # what libraries do on first use
    answer: Cost  # what a query adds once


def time_store(
    folder: Path, sketch: SketchMap, dtype: str, sides: dict[str, TimedSide], shard: int, queries: int
) -> TimedStore:
    """Write stores of one and of some training shards, and rank from both.

    shard: examples that a real one holds at least. queries: to rank for.
    """
    rows = {
        name: min(split_shards(0, side.batch, shard).rows, max(1, SHARD_BYTES // side.value_bytes))
        for name, side in sides.items()
    }
    least, most = SHARDS
    shards_of = (1, max(least, min(most, 1 + ROWS // rows["train"])))
    asked = min(queries, MOST_QUERIES, rows["query"])
    places, writes = [], []
    for shards in shards_of:
        store = Store.create(folder / str(shards), sketch, {"dtype": dtype, "made": "for a plan"})
        with store.writing():
            for k in range(shards):
                writes.append(_write(store, sides["train"], rows["train"], k).per(rows["train"]))
                _write(store, sides["train"], rows["train"], k, SECOND)
            query = _write(store, sides["query"], asked, 0).per(asked)
            _write(store, sides["query"], asked, 0, SECOND)
        places.append(store.path)
    write = {"train": mean(writes[1:]), "query": query}
    if not sides["query"].features.has_steps:
        return TimedStore(write, None, None, Cost(), Cost())
    more = (shards_of[1] - 1) * rows["train"]

    def row_for(count: int) -> Cost:
        """A training row more for so many queries. One answer each: reading more costs more where shards are many."""
        names = [f"query-0-{j}" for j in range(count)]
        few, many = _least([partial(_rank, path, names, 1) for path in places])
        return many.over(few).per(more)

    names = [f"query-0-{j}" for j in range(asked)]
    cold = timed(partial(_rank, places[0], names))[1]
    twice = partial(_rank, places[1], names, points=(POINT, SECOND))
    few, many, with_second = _least([*(partial(_rank, path, names) for path in places), twice])
    one = row_for(1)
    several = one if asked == 1 else row_for(asked)
    every = several.times(shards_of[1] * rows["train"])
    query = with_second.over(many).over(every)
    answer = many.over(every).over(query)
    each = several.over(one).per(max(1, asked - 1))
    row = Cost(*(a + b * (queries - 1) for a, b in zip(one, each, strict=True)))
    return TimedStore(write, row, query.per(asked), cold.over(few), answer.per(asked))


def _write(store: Store, side: TimedSide, rows: int, number: int, point: Checkpoint = POINT) -> Cost:
    """One shard of the side's timed features, again and again, joined from batches as a run does."""
    f = side.features
    names = [f"{side.side}-{number}-{k}" for k in range(rows)]
    parts = []
    for start in range(0, rows, side.batch):
        take = np.arange(start, min(start + side.batch, rows)) % len(f.ids)
        outside, losses = (None if x is None else x[take] for x in (f.outside, f.losses))
        ids = tuple(names[start : start + len(take)])
        parts.append(Features(f.values[take], f.tau[take], f.blocks, f.sketch, outside, ids, losses=losses))
    contents = ["0" * 16] * rows
    return timed(lambda: store.append(point.key, side.side, Features.concatenate(parts), contents))[1]


def _rank(path: Path, queries: list[str], k: int = 10, points: Sequence[Checkpoint] = (POINT,)) -> None:
    stream_top(Store(path), points, queries, k)  # opened anew: shards are checked again


def _least(turns: list[Callable[[], None]]) -> list[Cost]:
    """What each costs, the least of several rounds in turn."""
    rounds = [[timed(turn)[1] for turn in turns] for _ in range(ROUNDS)]
    return [Cost(min(c.wall for c in costs), min(c.cpu for c in costs)) for costs in zip(*rounds, strict=True)]
