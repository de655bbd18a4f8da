"""Tokenizer: byte-level BPE, digits one by one; the marks of turns are numbers that no text can spell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from sdi.files import write_whole

MARKS = ("begin", "user", "user end", "assistant", "assistant end")
BYTES = 256


def library() -> Any:
    """The package `tokenizers`, or an error that says how to get it."""
    try:
        import tokenizers
    except ImportError:
        raise ImportError("the chat corpus needs tokenizers: pip install 'sdi-influence[nanochat]'") from None
    return tokenizers


class Tokenizer:
    """Text to numbers below `vocab` and back; the last five are the marks. inner: of the package `tokenizers`."""

    def __init__(self, inner: Any, vocab: int) -> None:
        self.inner, self.vocab = inner, vocab
        self.mark = {name: vocab - len(MARKS) + k for k, name in enumerate(MARKS)}

    @classmethod
    def train(cls, texts: Iterable[str], vocab: int) -> Tokenizer:
        """A tokenizer of at most `vocab` numbers, all bytes among them, merges learnt from `texts`."""
        if vocab < BYTES + len(MARKS):
            raise ValueError(
                f"vocab must be at least {BYTES + len(MARKS)}, all bytes and {len(MARKS)} marks, got {vocab}"
            )
        lib = library()
        inner = lib.Tokenizer(lib.models.BPE())
        inner.pre_tokenizer = lib.pre_tokenizers.Sequence([
            lib.pre_tokenizers.Digits(individual_digits=True),
            lib.pre_tokenizers.ByteLevel(add_prefix_space=False),
        ])  # fmt: skip
        inner.decoder = lib.decoders.ByteLevel()
        trainer = lib.trainers.BpeTrainer(
            vocab_size=vocab - len(MARKS), show_progress=False,
            initial_alphabet=lib.pre_tokenizers.ByteLevel.alphabet(),
        )  # fmt: skip
        inner.train_from_iterator(texts, trainer)
        return cls(inner, vocab)

    def encode(self, text: str) -> list[int]:
        return list(self.inner.encode(text).ids)

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of `numbers`; marks, and numbers that were never learnt, are left out."""
        return str(self.inner.decode([int(k) for k in numbers if k < self.inner.get_vocab_size()]))

    def save(self, path: Path) -> None:
        """Write it as JSON of the package `tokenizers`, atomically."""
        write_whole(path, (self.inner.to_str() + "\n").encode())

    @classmethod
    def load(cls, path: Path, vocab: int) -> Tokenizer:
        """One that was saved. vocab: as it was trained with."""
        return cls(library().Tokenizer.from_str(path.read_text()), vocab)
