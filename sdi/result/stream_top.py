"""stream_top: rank training examples per query from memory-mapped shards, without an n x q x tau array.

Training rows pass by in blocks, straight from the mapped file into one matrix product with the query's steps; a block's
scores are reduced to one number per target and merged into the k best so far.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from sdi.arguments import some_of
from sdi.inputs.checkpoints import Checkpoint
from sdi.ranks import find_share
from sdi.result.best import Best
from sdi.result.question import Question
from sdi.result.ranking import LATE, Top
from sdi.result.train_blocks import train_blocks
from sdi.store.share import Share
from sdi.store.store import Store

Array = np.ndarray


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
    mine: Best | None = None
    transposed = [np.ascontiguousarray(c.T) for c in columns]
    for names, parts in train_blocks(store, checkpoints, train, train_steps, share):
        scores = sum(part @ c for part, c in zip(parts, transposed, strict=True))
        keys = keys_of(np.asarray(scores))
        mine = Best(keys.shape[1], k) if mine is None else mine
        mine.merge(keys, names)
    found = [one for one in share.gather(mine) if one is not None]
    if not found:
        raise ValueError(f"store {store.path} holds no training examples")
    best = Best(len(found[0].keys), k)
    for one in found:
        best.join(one)
    return best.ranked()
