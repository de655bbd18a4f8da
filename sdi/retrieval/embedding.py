"""Influence as one inner product: each training example and each target becomes one vector, over all checkpoints.

    sum_k eta_k g_i^k . phi_j^k  =  x_i . y_j,   x_i = [sqrt(eta_k) g_i^k]_k,   y_j = [sqrt(eta_k) phi_j^k]_k

with the eta of each parameter. Influence is linear in the query's steps, so y of a range of steps is a sum: one index
of the x answers every range of query steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float

from sdi.inputs.checkpoints import Checkpoint
from sdi.result.question import Question
from sdi.result.score_store import etas
from sdi.result.train_blocks import train_blocks
from sdi.store.int8 import spread_over
from sdi.store.store import Store

Array = np.ndarray


def roots(store: Store, checkpoints: Sequence[Checkpoint]) -> list[Float[Array, "D"]]:
    """The square root of every column's eta, for each checkpoint."""
    return [np.sqrt(spread_over(etas(c, store), store.blocks)).astype(np.float32) for c in checkpoints]


def train_vectors(
    store: Store, checkpoints: Sequence[Checkpoint], train: Sequence[str] | None, train_steps: tuple[int, int] | None
) -> Iterator[tuple[list[str], Float[Array, "b KD"]]]:
    """Blocks of ids and of their vectors, in the order in which the store holds them."""
    weights = roots(store, checkpoints)
    for names, parts in train_blocks(store, checkpoints, train, train_steps):
        vectors = [part.astype(np.float32) * w for part, w in zip(parts, weights, strict=True)]
        yield names, np.concatenate(vectors, axis=1) if len(vectors) > 1 else vectors[0]


def target_vectors(store: Store, question: Question) -> Float[Array, "T KD"]:
    """The vectors of a question's targets."""
    vectors = []
    for c, f in zip(question.checkpoints, question.features, strict=True):
        vectors.append(np.stack([target.of(f) for target in question.targets]) * roots(store, [c])[0])
    return np.concatenate(vectors, axis=1).astype(np.float32)


def stored_order(store: Store, checkpoints: Sequence[Checkpoint], train: Sequence[str] | None) -> list[str]:
    """The ids of training examples, in the order in which the store holds them. train: which; None: all."""
    rows = store.rows(checkpoints[0].key, "train")
    if train is None:
        return list(rows)
    wanted = set(train)
    return [i for i in rows if i in wanted]
