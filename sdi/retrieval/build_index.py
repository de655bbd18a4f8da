"""build_index: a FAISS index of a store's training examples, written beside the store's files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float, UInt8

from sdi.arguments import at_least_one, one_of, some_of, whole
from sdi.inputs.checkpoints import Checkpoint
from sdi.result.question import longest
from sdi.result.ranking import step_range
from sdi.retrieval.embedding import stored_order, train_vectors
from sdi.retrieval.index_file import DIGEST, Index, describe, index_path, row_digest
from sdi.retrieval.structure import KINDS, SAMPLE, build_structure, require_faiss
from sdi.store.store import Store, find_row

Array = np.ndarray
Tell = Callable[[str], None]


def build_index(
    store: Store,
    checkpoints: Sequence[Checkpoint],
    train: Sequence[str] | None = None,
    kind: str = "compressed",
    width: int = 32,
    train_steps: slice | int | None = None,
    tell: Tell = lambda text: None,
) -> Index:
    """Build an index of training examples for `retrieve_top`, and write it to the store's folder.

    store: the store. checkpoints: those to sum over, from `find_checkpoints`.
    train: the ids to index; None: all in the store.
    kind: "compressed", some bytes for each example; or "exact", all of its numbers in float32.
    width: how many principal axes a compressed index keeps, at 4 bits each.
    train_steps: a step or a slice of steps of the training examples, from 1; None: whole gradients. It needs a store
        that keeps them (mode "matrix").
    tell: called with a line of text at every stage.
    Returns the `Index`, which is index.safetensors in the store's folder by now.
    """
    one_of("kind", kind, KINDS)
    width = whole("width", width)
    at_least_one("width", width)
    some_of("checkpoints", checkpoints, "checkpoints, as `find_checkpoints` gives")
    if train is not None:
        some_of("train", train, "ids")
        for i in train:
            find_row(store.rows(checkpoints[0].key, "train"), i, "train")
    require_faiss()
    steps = None if train_steps is None else step_range(train_steps, longest(store, checkpoints))
    ids = stored_order(store, checkpoints, train)
    if not ids:
        raise ValueError(f"store {store.path} holds no training examples")

    def blocks() -> Iterator[Float[Array, "b d"]]:
        done = 0
        for names, vectors in train_vectors(store, checkpoints, train, steps):
            done += len(names)
            tell(f"reading training examples, {done:,} of {len(ids):,}")
            yield vectors

    few = ids[:: -(-len(ids) // SAMPLE)]
    sample = np.concatenate([v for _, v in train_vectors(store, checkpoints, few, steps)])
    arrays = build_structure(blocks(), sample, kind, width)
    tell("digests of rows")
    index = Index(kind, arrays, _digests(store, checkpoints, ids), describe(store, checkpoints, ids, steps))
    index.save(index_path(store, steps))
    return index


def _digests(store: Store, checkpoints: Sequence[Checkpoint], ids: Sequence[str]) -> UInt8[Array, "n K 16"]:
    out = np.empty((len(ids), len(checkpoints), DIGEST), dtype=np.uint8)
    for k, c in enumerate(checkpoints):
        rows, shard, part = store.rows(c.key, "train"), None, {}
        for n, i in enumerate(ids):
            row = find_row(rows, i, "train")
            if row.shard != shard:
                shard, part = row.shard, store.open_shard(row.shard)
            out[n, k] = np.frombuffer(row_digest(part, row.row), dtype=np.uint8)
    return out
