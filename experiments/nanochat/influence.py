"""profiles_at: what one source's training conversations do to each loop step of its held-out ones, at one horizon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.backends import room
from sdi.run.attribute import attribute

from .chat import Chat

Array = np.ndarray
Tell = Callable[[Any], None]


def loss(model: Any, batch: Any) -> Any:
    """Mean cross-entropy of a conversation's counted tokens, one value per conversation."""
    return room("fast").token_cross_entropy(model, batch)


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
    found = attribute(
        room("fast").LoopedTransformer(config), loss=loss, loop=config.loop(), checkpoints=checkpoints, train=train,
        query=query, store=store, progress=tell, m=s.m, spread=False,
    )  # fmt: skip
    return found.sdi_values.sum(axis=0, dtype=np.float64)
