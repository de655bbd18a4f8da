"""render: a conversation as tokens, with a mask of what the assistant says; batches of them for a loss.

begin user QUESTION user-end assistant ANSWER assistant-end
A target is the next token. In mid-training all targets count, in fine-tuning those of the answer and its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from .sources import Conversation
from .tokenizer import Tokenizer


class Rendered(NamedTuple):
    """Tokens, and for each whether the assistant says it."""

    tokens: list[int]
    said: list[bool]


def prompt(user: str, tokenizer: Tokenizer) -> list[int]:
    """The tokens up to where the assistant begins to speak."""
    mark = tokenizer.mark
    return [mark["begin"], mark["user"], *tokenizer.encode(user), mark["user end"], mark["assistant"]]


def render(conversation: Conversation, tokenizer: Tokenizer, length: int) -> Rendered:
    """A conversation as tokens and mask.

    tokenizer: of the corpus. length: the most tokens; what is longer is cut at the end.
    """
    before = prompt(conversation.user, tokenizer)
    answer = [*tokenizer.encode(conversation.assistant), tokenizer.mark["assistant end"]]
    said = [False] * len(before) + [True] * len(answer)
    return Rendered((before + answer)[:length], said[:length])


def make_batch(rows: Sequence[Rendered], everything: bool) -> dict[str, Any]:
    """Rows padded at the end, as a batch for `sdi.fast.token_cross_entropy`; padding has no weight.

    everything: all targets count, as in mid-training; else those that the assistant says.
    """
    longest = max(len(row.tokens) for row in rows) - 1
    tokens, targets = (np.zeros((len(rows), longest), dtype=np.int64) for _ in range(2))
    mask = np.zeros((len(rows), longest), dtype=np.float32)
    for k, (ids, said) in enumerate(rows):
        many = len(ids) - 1
        tokens[k, :many], targets[k, :many] = ids[:-1], ids[1:]
        mask[k, :many] = 1.0 if everything else said[1:]
    return {name: torch.from_numpy(x) for name, x in (("tokens", tokens), ("targets", targets), ("mask", mask))}


def make_batches(
    conversations: Sequence[Conversation], tokenizer: Tokenizer, length: int, everything: bool, batch: int = 32
) -> list[dict[str, Any]]:
    """Batches for `sdi.attribute`, in the order of the conversations, whose id is all that is said in it.

    tokenizer, length: as in `render`. everything: as in `make_batch`. batch: conversations in each.
    """
    out = []
    for k in range(0, len(conversations), batch):
        some = conversations[k : k + batch]
        rows = [render(one, tokenizer, length) for one in some]
        out.append(
            {"id": [f"{one.source}: {one.user} {one.assistant}" for one in some], **make_batch(rows, everything)}
        )
    return out
