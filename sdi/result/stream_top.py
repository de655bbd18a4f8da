"""stream_top: rank training examples per query from memory-mapped shards, without an n x q x tau array.

Training rows pass by in blocks, straight from the mapped file into one matrix product with the query's steps; a block's
scores are reduced to one number per target and merged into the k best so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from sdi.arguments import some_of
from sdi.inputs.batches import in_order
from sdi.inputs.checkpoints import Checkpoint
from sdi.ranks import find_share
from sdi.result.question import Question
from sdi.result.ranking import LATE, Top
from sdi.store.shard_format import decoded
from sdi.store.share import Share
from sdi.store.store import Row, Store, find_row

Array = np.ndarray
BLOCK_BYTES = 64 << 20


def stream_top(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    queries: Sequence[str],
    k: int = 10,
    steps: slice | int | None = None,
    by: str = "signed",
    late: float = LATE,
    each_step: bool = False,
    train: Sequence[str] | None = None,
    stderr: str = "auto",
    train_steps: slice | int | None = None,
    ranks: bool = False,
) -> list[Top]:
    """The k training examples that most influence each query: what `Result.top` gives, for stores of any size.

    store: a store that holds the steps of its queries. checkpoints: those to sum over, from `find_checkpoints`.
    queries: ids of queries. k: rows per ranking.
    steps: a step or a slice of steps, from 1, both ends included; None: all, and outside the loop.
    by: "signed", largest first; "absolute"; or "late", as absolute among the examples with at least a share `late` of
        their influence in the later half of the loop.
    each_step: a ranking for every one of the steps, query by query.
    train: the ids to rank; None: all in the store, those of earlier runs among them.
    stderr: "bound", "estimated", or "auto", as the store was begun.
    train_steps: of the training examples, as `steps` of queries; other than None, the store must keep them (mode
        "matrix").
    ranks: whether the ranks of a torch.distributed job read some of the training shards each; then each must make this
        call, and gets all rankings.
    Returns a `Top` for each query; with each_step, one for each query and step.
    """
    some_of("checkpoints", checkpoints, "checkpoints, as `find_checkpoints` gives")
    share = find_share() if ranks else Share()
    store.look([(c.key, side) for c in checkpoints for side in ("train", "query")], share)
    question = Question.ask(store, checkpoints, queries, k, steps, by, late, each_step, stderr, train_steps)
    if train is not None:
        some_of("train", train, "ids")
    most = question.k + 1  # one more: the last row may be tied with it
    best = stream_best(store, checkpoints, question.columns(), question.keys, most, train, question.train_steps, share)
    found = [
        question.answer(store, target, ids) for target, ids in zip(question.targets, best, strict=True) if share.leads
    ]
    return share.first(found)


def stream_best(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    columns: Sequence[Float[Array, "C D"]],
    keys_of: Callable[[Float[Array, "b C"]], Float[Array, "b T"]],
    k: int,
    train: Sequence[str] | None = None,
    train_steps: tuple[int, int] | None = None,
    share: Share | None = None,
) -> list[list[str]]:
    """For each target, the ids of the k training examples with the largest keys, best first; without keys of -inf.

    share: which of several processes this is: each reads the blocks that fall to it, and all get the best of all.
    """
    share = share or Share()
    ids = in_order(store.rows(checkpoints[0].key, "train") if train is None else train)
    rank = {i: k for k, i in enumerate(ids)}  # by which equals are ordered, as in a result
    mine: Best | None = None
    transposed = [np.ascontiguousarray(c.T) for c in columns]
    for names, parts in train_blocks(store, checkpoints, train, train_steps, share):
        scores = sum(part @ c for part, c in zip(parts, transposed, strict=True))
        keys = keys_of(np.asarray(scores))
        mine = Best(keys.shape[1], k) if mine is None else mine
        mine.merge(keys, np.array([rank[i] for i in names]))
    found = [one for one in share.gather(mine) if one is not None]
    if not found:
        raise ValueError(f"store {store.path} holds no training examples")
    best = Best(len(found[0].keys), k)
    for one in found:
        best.merge(one.keys.T, one.at)
    return [[ids[i] for i in row] for row in best.indices()]


class Best:
    """The k largest keys seen so far for each target; among equals, those of lower rank."""

    def __init__(self, targets: int, k: int) -> None:
        self.k = k
        self.keys = np.full((targets, 0), -np.inf)
        self.at = np.zeros((targets, 0), dtype=np.int64)

    def merge(self, keys: Float[Array, "b T"], ranks: Int[Array, "b"] | Int[Array, "T b"]) -> None:
        new = np.broadcast_to(ranks, keys.T.shape)
        at = np.concatenate([self.at, new], axis=1)
        keys = np.concatenate([self.keys, keys.T], axis=1)
        if keys.shape[1] > self.k:
            cut = np.partition(keys, keys.shape[1] - self.k, axis=1)[:, -self.k, None]
            keep = np.stack([self._first(row, c, r) for row, c, r in zip(keys, cut[:, 0], at, strict=True)])
            keys, at = np.take_along_axis(keys, keep, 1), np.take_along_axis(at, keep, 1)
        self.keys, self.at = keys, at

    def _first(self, row: Float[Array, "b"], cut: float, ranks: Int[Array, "b"]) -> Int[Array, "k"]:
        """The places of the k largest; of those equal to the cut, the ones of lowest rank."""
        above, equal = np.flatnonzero(row > cut), np.flatnonzero(row == cut)
        equal = equal[np.argsort(ranks[equal])][: self.k - len(above)]
        return np.concatenate([above, equal])

    def indices(self) -> list[list[int]]:
        out = []
        for keys, at in zip(self.keys, self.at, strict=True):
            order = np.lexsort((at, -keys))
            out.append([int(at[i]) for i in order if keys[i] > -np.inf])
        return out


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
    for k, names in enumerate(_names_of_blocks(store, rows, train)):
        if share.mine(k):
            yield names, [_block(store, r, names, train_steps) for r in rows]


def _names_of_blocks(store: Store, rows: list[dict[str, Row]], train: Sequence[str] | None) -> Iterator[list[str]]:
    if train is not None:
        wanted = {i: find_row(rows[0], i, "train") for i in train}
        rows[0] = {i: row for i, row in rows[0].items() if i in wanted}  # in the order in which they are stored
    size = max(1, BLOCK_BYTES // (store.sketch.size * np.result_type(np.float32, store.dtype).itemsize))
    names: list[str] = []
    for i, row in rows[0].items():
        if names and (len(names) == size or rows[0][names[-1]].shard != row.shard):
            yield names
            names = []
        names.append(i)
    if names:
        yield names


def _block(
    store: Store, rows: Mapping[str, Row], names: list[str], train_steps: tuple[int, int] | None
) -> Float[Array, "b D"]:
    places = [find_row(rows, i, "train") for i in names]
    start, shard = places[0].row, places[0].shard
    if all(p.shard == shard and p.row == start + k for k, p in enumerate(places)):
        return _gradients(store, shard, slice(start, start + len(names)), train_steps)
    values = np.empty((len(names), store.sketch.size), dtype=np.result_type(np.float32, store.dtype))
    for shard in dict.fromkeys(p.shard for p in places):
        here = [k for k, p in enumerate(places) if p.shard == shard]
        values[here] = _gradients(store, shard, [places[k].row for k in here], train_steps)
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
