"""A small looped language model: letters of short conversations; queries are unseen ones, one for each source.

A token is a character. Only the answer counts in the loss.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

import torch

from sdi.inputs.looped_config import LoopedConfig

from ...nanochat.corpus.sources import Conversation
from ...nanochat.corpus.split import Corpus, generate
from ..settings import Settings
from .task import Batch, Task

ASKED = ("spelling", "text")  # sources
SEED = 0  # of the conversations
CHARACTERS = 128  # of ASCII; 0 fills up


def about(settings: Settings) -> str:
    return f"a language model of characters ({' and '.join(ASKED)}), {settings.loops} loop steps"


def model_config(settings: Settings) -> LoopedConfig:
    return LoopedConfig(
        vocab=CHARACTERS, classes=CHARACTERS, d=settings.d, heads=settings.heads, tau=settings.loops,
        length=settings.length, rotary=True, bias=False,
    )  # fmt: skip


def corpus(settings: Settings) -> Corpus:
    """At least as many conversations as are wanted."""
    return generate(settings.examples, settings.queries, SEED)


def one_batch(conversations: Sequence[Conversation], settings: Settings) -> Batch:
    """A batch padded to `length` characters, each predicted from those before it; longer conversations are cut."""
    n, length = len(conversations), settings.length
    tokens, mask = torch.zeros(n, length + 1, dtype=torch.long), torch.zeros(n, length + 1, dtype=torch.float64)
    for row, one in enumerate(conversations):
        text, begins = f"{one.user}\n{one.assistant}\n", len(one.user) + 1
        if begins >= length:
            raise ValueError(f"length must be more than {begins}, to hold an answer of {one.user!r}, got {length}")
        codes = torch.tensor(list(text.encode("ascii"))[: length + 1])
        tokens[row, : len(codes)] = codes
        mask[row, begins : len(codes)] = 1.0
    names = [f"{one.source}: {one.user} {one.assistant}" for one in conversations]
    return {"id": names, "tokens": tokens[:, :-1], "targets": tokens[:, 1:], "mask": mask[:, 1:]}


def train(settings: Settings) -> Batch:
    """The sources in turn."""
    sides = zip_longest(*(corpus(settings).train[name] for name in ASKED))
    every = [one for one in chain.from_iterable(sides) if one is not None]
    return one_batch(every[: settings.examples], settings)


def queries(settings: Settings) -> list[Batch]:
    held = corpus(settings).test
    return [one_batch(held[name], settings) for name in ASKED]


TASK = Task(about, model_config, train, queries)
