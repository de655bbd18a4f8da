"""Chat: the conversations of a run, their tokenizer, and the rows that training draws from."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .corpus import Conversation, Corpus, Rendered, Tokenizer, generate, make_batches, render
from .corpus.token_batches import make_batch
from .settings import Settings


class Chat(NamedTuple):
    """What a run trains on and is tested with."""

    settings: Settings
    corpus: Corpus
    tokenizer: Tokenizer
    rows: dict[str, list[Rendered]]  # of training, by source

    def draw(self, rng: np.random.Generator, everything: bool) -> dict[str, Any]:
        """A random batch of training: every source equally often. everything: all targets count, else the answers'."""
        sources, part = list(self.rows), rng.random((self.settings.batch, 2))
        chosen = [self.rows[sources[int(a * len(sources))]] for a, _ in part]
        return make_batch([rows[int(b * len(rows))] for rows, (_, b) in zip(chosen, part, strict=True)], everything)

    def rendered(self, conversation: Conversation) -> Rendered:
        """A conversation as tokens and mask."""
        return render(conversation, self.tokenizer, self.settings.length)

    def batches(self, conversations: list[Conversation], everything: bool) -> list[dict[str, Any]]:
        """Conversations as batches for `sdi.attribute`."""
        return make_batches(conversations, self.tokenizer, self.settings.length, everything)


def prepare(settings: Settings, folder: Path) -> Chat:
    """The corpus and its tokenizer, trained once and kept in FOLDER/tokenizer.json.

    settings: sizes and seed. folder: one that exists.
    """
    corpus = generate(settings.conversations, settings.held_out, settings.seed)
    path = folder / "tokenizer.json"
    if not path.exists():
        texts = (f"{c.user} {c.assistant}" for c in corpus.all_of("train"))
        Tokenizer.train(texts, settings.vocab).save(path)
    tokenizer = Tokenizer.load(path, settings.vocab)
    rows = {name: [render(c, tokenizer, settings.length) for c in some] for name, some in corpus.train.items()}
    return Chat(settings, corpus, tokenizer, rows)
