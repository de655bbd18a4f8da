"""Conversations made by a seeded generator, split without leaks, and rendered as tokens with an assistant-only mask."""

from .sources import SOURCES, Conversation, final_answer
from .split import Corpus, generate
from .token_batches import Rendered, make_batches, render
from .tokenizer import Tokenizer

__all__ = [
    "SOURCES",
    "Conversation",
    "Corpus",
    "Rendered",
    "Tokenizer",
    "final_answer",
    "generate",
    "make_batches",
    "render",
]
