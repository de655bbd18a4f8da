"""influence: what conversations do to each loop step of others; profiles_at: one source on its held-out ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.backends import room
from sdi.loop import Loop
from sdi.run.attribute import attribute

from .chat import Chat

Array = np.ndarray
Tell = Callable[[Any], None]
Batches = Sequence[dict[str, Any]]


def loss(model: Any, batch: Any) -> Any:
    """Mean cross-entropy of a conversation's counted tokens, one value per conversation."""
    return room("fast").token_cross_entropy(model, batch)


def loss_of(logits: Any, batch: Any) -> Any:
    """The same loss where the logits are known."""
    return loss(lambda same: logits, batch)


def influence(
    model: Any,
    loop: Loop,
    checkpoints: Sequence[Path],
    train: Batches,
    query: Batches,
    store: Path,
    m: int,
    tell: Tell = lambda progress: None,
    of: Callable[[Any, Any], Any] = loss,
) -> Float[Array, "n q tau"]:
    """SDI of every training example on every step of every query, summed over checkpoints with their rates.

    model, loop: as for `sdi.attribute`. checkpoints: files. train, query: batches with ids; rows and columns are in
    their order. store: a folder for features. m: of the sketch. tell: called after every batch. of: the loss, one value
    per example.
    """
    found = attribute(
        model, loss=of, loop=loop, checkpoints=checkpoints, train=train, query=query, store=store, progress=tell, m=m,
        spread=False,
    )  # fmt: skip
    rows, columns = (_places(found.labels[side], some) for side, some in (("train", train), ("query", query)))
    return found.sdi_values[rows][:, columns].astype(np.float64)


def _places(labels: Sequence[Any], batches: Batches) -> list[int]:
    """Where the examples of batches stand among labels."""
    at = {name: k for k, name in enumerate(labels)}
    return [at[name] for batch in batches for name in batch["id"]]


def profiles_at(
    tau: int,
    truncated: bool,
    chat: Chat,
    checkpoints: Sequence[Path],
    everything: bool,
    store: Path,
    tell: Tell = lambda progress: None,
) -> Float[Array, "q tau"]:
    """SDI on every step of every query, summed over training conversations and over checkpoints with their rates.

    tau: loop steps of both sides. truncated: gradients of the last `bptt` steps only, on both sides; earlier steps are
    then 0. chat: the conversations; `sample` and `queries` of its settings are taken from `source`. checkpoints: files.
    everything: the training loss is of all tokens, as in mid-training; that of queries is always of the answer.
    store: a folder for features. tell: called after every batch.
    """
    s = chat.settings
    config = s.model_config(tau, truncated)
    train = chat.batches(list(chat.corpus.train[s.source][: s.sample]), everything)
    query = chat.batches(list(chat.corpus.test[s.source][: s.queries]), everything=False)
    model = room("fast").LoopedTransformer(config)
    return influence(model, config.loop(), checkpoints, train, query, store, s.m, tell).sum(axis=0)
