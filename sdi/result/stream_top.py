"""stream_top: rank training examples per query from memory-mapped shards, without an n x q x tau array.

Training rows pass by in blocks, straight from the mapped file into one matrix product with the query's steps; a block's
scores are reduced to one number per target and merged into the k best so far. A target is a query, or one of its steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from sdi.arguments import some_of
from sdi.inputs.batches import in_order
from sdi.inputs.checkpoints import Checkpoint
from sdi.ranks import find_share
from sdi.result.ranking import LATE, Top, check_order, order_keys, step_range, step_words, top_rows
from sdi.result.score_store import etas, weigh
from sdi.scores.standard_error import sizes, standard_error
from sdi.scores.summaries import late_mass
from sdi.store.features import Features
from sdi.store.shard_format import decoded
from sdi.store.share import Share
from sdi.store.store import Row, Store, find_row

Array = np.ndarray
BLOCK_BYTES = 64 << 20


class Target(NamedTuple):
    """What to rank for: the steps first to last of a query, summed; if `whole`, all steps and what enters outside."""

    query: int
    first: int
    last: int
    whole: bool

    def of(self, features: Features) -> Float[Array, "D"]:
        """The target's steps of the query's features, summed: by linearity this may be done before the product."""
        steps = features.phi[self.query, self.first - 1 : self.last].sum(axis=0)
        return steps + features.outside[self.query] if self.whole and features.outside is not None else steps

    def words(self, tau: int) -> str:
        return "all steps" if self.whole else step_words(self.first, self.last, tau)


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
    ranks: whether the ranks of a torch.distributed job read some of the training shards each; then each must make this
        call, and gets all rankings.
    Returns a `Top` for each query; with each_step, one for each query and step.
    """
    k, bars = check_order(k, by, late), store.bars(stderr)
    some_of("checkpoints", checkpoints, "checkpoints, as `find_checkpoints` gives")
    some_of("queries", queries, "ids")
    if train is not None:
        some_of("train", train, "ids")
    share = find_share() if ranks else Share()
    store.look([(c.key, side) for c in checkpoints for side in ("train", "query")], share)
    features = [read_steps(store, c, queries) for c in checkpoints]
    tau = max(f.phi.shape[1] for f in features)
    features = [_padded(f, tau) for f in features]
    first, last = step_range(steps, tau)
    targets = [
        Target(j, t, t if each_step else last, steps is None and not each_step)
        for j in range(len(queries))
        for t in (range(first, last + 1) if each_step else [first])
    ]
    eta = [etas(c, store) for c in checkpoints]
    weighted = [weigh(f, e) for f, e in zip(features, eta, strict=True)]
    half = np.max([f.tau for f in features], axis=0) // 2 + 1
    columns = [np.stack([target.of(f) for target in targets]) for f in weighted]
    if by == "late":  # shares need every step, beside the scores
        columns = [np.concatenate([c, f.phi.reshape(-1, c.shape[1])]) for c, f in zip(columns, weighted, strict=True)]

    def keys_of(scores: Float[Array, "b C"]) -> Float[Array, "b T"]:
        if by != "late":
            return order_keys(scores, None, by, late)
        by_step = scores[:, len(targets) :].reshape(len(scores), len(queries), tau)
        shares = late_mass(np.abs(by_step), half)[:, [target.query for target in targets]]
        return order_keys(scores[:, : len(targets)], shares, by, late)

    best = stream_best(store, checkpoints, columns, keys_of, k + 1, train, share)  # one more: the last row may be tied
    found = [
        _detailed(store, checkpoints, features, weighted, eta, target, ids, half, by, k, bars)
        for target, ids in zip(targets, best, strict=True)
        if share.leads
    ]
    return share.first(found)


def _detailed(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    features: Sequence[Features],
    weighted: Sequence[Features],
    eta: Sequence[Array],
    target: Target,
    ids: list[str],
    half: Int[Array, "q"],
    by: str,
    k: int,
    bars: str,
) -> Top:
    """Scores, error bars and late shares of the chosen few."""
    j, tau = target.query, features[0].phi.shape[1]
    scores, errors, by_step = np.zeros(len(ids)), np.zeros(len(ids)), np.zeros((len(ids), tau))
    for c, f, w, e in zip(checkpoints, features, weighted, eta, strict=True) if ids else ():
        train = store.read(c.key, "train", ids)
        scores += train.g @ target.of(w)
        by_step += train.g @ w.phi[j].T
        a, b = sizes(train, store.dtype, whole=True), sizes(_one(f, j), store.dtype, whole=target.whole)
        error = standard_error(store.sketch, a, b, e, bars)[:, 0]
        errors += error if target.whole else error[:, target.first - 1 : target.last].sum(axis=1)
    shares = late_mass(np.abs(by_step), half[j]) if ids else np.zeros(0)
    keys = np.abs(scores) if by != "signed" else scores
    rows = top_rows(ids, range(len(ids)), scores, keys, errors, shares, k)
    return Top(features[0].ids[j], target.words(tau), by, rows)


def read_steps(store: Store, checkpoint: Checkpoint, queries: Sequence[str]) -> Features:
    """The steps of queries, where the store has them."""
    features = store.read(checkpoint.key, "query", queries)
    if not features.has_steps:
        raise ValueError(
            f"store {store.path} holds queries without steps (modes 'tracin' and 'train'); featurize with mode 'query'"
        )
    return features


def _one(f: Features, j: int) -> Features:
    outside = None if f.outside is None else f.outside[j : j + 1]
    return Features(f.values[j : j + 1], f.tau[j : j + 1], f.blocks, f.sketch, outside, f.ids[j : j + 1])


def _padded(f: Features, tau: int) -> Features:
    """A model may take more steps at one checkpoint than at another."""
    if f.phi.shape[1] == tau:
        return f
    values = np.pad(f.phi, ((0, 0), (0, tau - f.phi.shape[1]), (0, 0)))
    return Features(values, f.tau, f.blocks, f.sketch, f.outside, f.ids, losses=f.losses)


def stream_best(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    columns: Sequence[Float[Array, "C D"]],
    keys_of: Callable[[Float[Array, "b C"]], Float[Array, "b T"]],
    k: int,
    train: Sequence[str] | None = None,
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
    for names, parts in train_blocks(store, checkpoints, train, share):
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
    share: Share | None = None,
) -> Iterator[tuple[list[str], list[Array]]]:
    """Blocks of training rows: their ids, and at every checkpoint their values, mapped where they stand together.

    share: of several processes; blocks of other ones are passed over, and their shards not opened.
    """
    share, rows = share or Share(), [store.rows(c.key, "train") for c in checkpoints]
    for k, names in enumerate(_names_of_blocks(store, rows, train)):
        if share.mine(k):
            yield names, [_block(store, r, names) for r in rows]


def _names_of_blocks(store: Store, rows: list[dict[str, Row]], train: Sequence[str] | None) -> Iterator[list[str]]:
    if train is not None:
        wanted = {i: find_row(rows[0], i, "train") for i in train}
        rows[0] = {i: row for i, row in rows[0].items() if i in wanted}  # in the order in which they are stored
    size = max(1, BLOCK_BYTES // (store.sketch.size * store.dtype.itemsize))
    names: list[str] = []
    for i, row in rows[0].items():
        if names and (len(names) == size or rows[0][names[-1]].shard != row.shard):
            yield names
            names = []
        names.append(i)
    if names:
        yield names


def _block(store: Store, rows: Mapping[str, Row], names: list[str]) -> Float[Array, "b D"]:
    places = [find_row(rows, i, "train") for i in names]
    start, shard = places[0].row, places[0].shard
    if all(p.shard == shard and p.row == start + k for k, p in enumerate(places)):
        return _gradients(store.open_shard(shard), slice(start, start + len(names)))
    values = np.empty((len(names), store.sketch.size), dtype=np.result_type(np.float32, store.dtype))
    for shard in dict.fromkeys(p.shard for p in places):
        here = [k for k, p in enumerate(places) if p.shard == shard]
        values[here] = _gradients(store.open_shard(shard), [places[k].row for k in here])
    return values


def _gradients(part: Mapping[str, Array], rows: slice | list[int]) -> Float[Array, "b D"]:
    values = decoded(part, "values", rows)
    if values.ndim == 3:
        values = values.sum(axis=1) + (decoded(part, "outside", rows) if "outside" in part else 0)
    return values
