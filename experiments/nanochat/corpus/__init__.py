"""Conversations made by a seeded generator, split without leaks, and rendered as tokens with an assistant-only mask."""

from .generate import Corpus, generate
from .render import Rendered, make_batches, render
from .sources import SOURCES, Conversation, final_answer
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
