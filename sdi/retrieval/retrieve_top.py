"""retrieve_top: rank training examples per query among the candidates that an index finds, instead of among all.

The index only says which examples to look at. Scores, error bars, order and ties are computed from the store's own
features of these, as `stream_top` computes them; so what is shown is right, but an example that the index does not find
is missed. `sdi-bench retrieval` measures how many are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int

from sdi.arguments import whole
from sdi.errors import StoreError
from sdi.files import map_safetensors
from sdi.inputs.batches import in_order
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.question import Question, longest
from sdi.result.ranking import LATE, Top, check_order, step_range
from sdi.retrieval.embedding import stored_order, target_vectors
from sdi.retrieval.index_file import Index, describe, index_path, row_digest
from sdi.store.features import Features
from sdi.store.store import Store, find_row

Array = np.ndarray
CANDIDATES = 400


def retrieve_top(
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
    candidates: int = CANDIDATES,
) -> list[Top]:
    """The k training examples that most influence each query, among the candidates that the store's index finds.

    store, checkpoints, queries, k, steps, by, late, each_step, train, stderr, train_steps: as in `stream_top`. The
        index must be of these training examples and, if given, of these `train_steps`; every range of query `steps` is
        answered by the same one.
    candidates: how many examples to look at for each ranking; by "absolute" and "late", so many of either sign.
    Returns a `Top` for each query; with each_step, one for each query and step.
    """
    check_candidates(candidates, check_order(k, by, late))
    return Retriever(store, checkpoints, train, train_steps).top(
        queries, k, steps, by, late, each_step, stderr, candidates
    )


def check_candidates(candidates: int, k: int) -> int:
    """More candidates than rows: the one after the last row may be tied with it."""
    candidates = whole("candidates", candidates)
    if candidates <= k:
        raise ValueError(f"candidates must be more than k={k}, got {candidates}")
    return candidates


class Retriever:
    """An index that was opened and checked, for many questions."""

    def __init__(
        self,
        store: Store,
        checkpoints: Sequence[Checkpoint],
        train: Sequence[str] | None = None,
        train_steps: slice | int | None = None,
    ) -> None:
        self.checkpoints, self.train_steps = checkpoints, train_steps
        steps = None if train_steps is None else step_range(train_steps, longest(store, checkpoints))
        self.ids = stored_order(store, checkpoints, train)
        self.rank = {i: n for n, i in enumerate(in_order(self.ids))}  # by which equals are ordered, as in a result
        path = index_path(store, steps)
        of = describe(store, checkpoints, self.ids, steps)
        option = "" if steps is None else f" --train-steps {steps[0]}-{steps[1]}"
        remedy = f"build it: sdi index {store.path}{option}"
        self.index = Index.load(path, of, store.sketch.size * len(checkpoints), remedy)
        self.store = CheckedRows(store, checkpoints, self.ids, self.index, remedy)

    def top(
        self,
        queries: Sequence[str],
        k: int = 10,
        steps: slice | int | None = None,
        by: str = "signed",
        late: float = LATE,
        each_step: bool = False,
        stderr: str = "auto",
        candidates: int = CANDIDATES,
    ) -> list[Top]:
        """As `retrieve_top`."""
        store = self.store
        question = Question.ask(
            store, self.checkpoints, queries, k, steps, by, late, each_step, stderr, self.train_steps
        )
        candidates = check_candidates(candidates, question.k)
        vectors = target_vectors(store, question)
        found = self.index.searcher.search(vectors, candidates)
        if by != "signed":
            other = self.index.searcher.search(-vectors, candidates)
            found = [np.union1d(a, b) for a, b in zip(found, other, strict=True)]
        columns = [np.ascontiguousarray(c.T) for c in question.columns()]
        answers = []
        for n, (target, places) in enumerate(zip(question.targets, found, strict=True)):
            ids = [self.ids[place] for place in np.sort(places)]
            rows = [question.train_of(store, c, ids)[0] for c in self.checkpoints]
            scores = sum(x @ c for x, c in zip(rows, columns, strict=True))
            best = self._first(question.keys(np.asarray(scores))[:, n], ids, question.k + 1)
            answers.append(question.answer(store, target, best))
        return answers

    def _first(self, keys: Float[Array, "c"], ids: Sequence[str], k: int) -> list[str]:
        """The ids of the k largest keys that are not -inf; among equals, in the order of a result."""
        order: Int[Array, "c"] = np.lexsort((np.array([self.rank[i] for i in ids]), -keys))
        return [ids[n] for n in order[:k] if keys[n] > -np.inf]


class CheckedRows(Store):
    """A store whose training rows are checked one by one against an index, not by their shards' digests."""

    def __init__(
        self, store: Store, checkpoints: Sequence[Checkpoint], ids: Sequence[str], index: Index, remedy: str
    ) -> None:
        super().__init__(store.path, store.manifest, store.sketch)
        self._shards, self._checked = store._shards, store._checked
        self.place = {i: n for n, i in enumerate(ids)}
        self.number = {c.key: n for n, c in enumerate(checkpoints)}
        self.index, self.remedy = index, remedy
        self._maps: dict[Path, dict[str, Array]] = {}

    def read(self, checkpoint: str, side: str, ids: Sequence[str]) -> Features:
        if side == "train":
            rows = self.rows(checkpoint, side)
            for i in ids:
                row = find_row(rows, i, side)
                try:
                    found = row_digest(self.open_shard(row.shard), row.row)
                except (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError):
                    found = b""  # no shard any more
                if found != self._digest(checkpoint, i):
                    raise StoreError(
                        f"the row of train example {i!r} in {row.shard} is not the one that was indexed: one of the "
                        f"two was altered; {self.remedy}"
                    )
        return super().read(checkpoint, side, ids)

    def open_shard(self, shard: Path) -> dict[str, np.ndarray]:
        if shard not in self._maps:
            if shard.parent.name != "train":
                return super().open_shard(shard)
            # As plain arrays: every row that is taken of np.memmap costs microseconds.
            self._maps[shard] = {name: np.asarray(array) for name, array in map_safetensors(shard).items()}
        return self._maps[shard]

    def _digest(self, checkpoint: str, i: str) -> bytes:
        return self.index.digests[self.place[i], self.number[checkpoint]].tobytes()
