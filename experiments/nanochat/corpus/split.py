"""generate: conversations of all sources, split so that nothing held out stands in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from itertools import chain

import numpy as np

from .sources import SOURCES, Conversation

PATIENCE = 2000  # draws in a row without anything new, after which a source counts as used up


@dataclass(frozen=True)
class Corpus:
    """Conversations by source. A key of `test` is no key of `train`; no conversation occurs twice on a side."""

    train: Mapping[str, tuple[Conversation, ...]]
    test: Mapping[str, tuple[Conversation, ...]]

    def all_of(self, side: str) -> list[Conversation]:
        """All conversations of "train" or "test", source by source."""
        return list(chain.from_iterable(getattr(self, side).values()))


def generate(train: int, test: int, seed: int) -> Corpus:
    """A corpus of at most `train` and `test` conversations of each source, the same for the same `seed`.

    The held-out ones are drawn first, each with a key of its own; then training, without these keys. A source that is
    used up before gives fewer; one that has nothing left for training is refused.
    """
    rngs = {name: np.random.default_rng([seed, k]) for k, name in enumerate(SOURCES)}
    held = {name: _distinct(name, rngs[name], test, lambda c: c.key) for name in SOURCES}
    banned = {name: {c.key for c in found} for name, found in held.items()}
    words = banned["spelling"] | banned["letters"]  # a word that is held out of one is held out of the other as well
    banned |= {"spelling": words, "letters": words}
    rest = {name: _distinct(name, rngs[name], train, lambda c: c.user + c.assistant, banned[name]) for name in SOURCES}
    for name, found in rest.items():
        if not found:
            raise ValueError(f"test must leave conversations of {name!r} for training, got {test}: all are held out")
    return Corpus(rest, held)


def _distinct(
    name: str, rng: np.random.Generator, many: int, of: Callable[[Conversation], str], banned: Set[str] = frozenset()
) -> tuple[Conversation, ...]:
    """At most `many` conversations of a source that differ in what `of` says of them, none with a banned key."""
    found: dict[str, Conversation] = {}
    misses = 0
    while len(found) < many and misses < PATIENCE:
        one = SOURCES[name](rng)
        misses += 1
        if one.key not in banned and of(one) not in found:
            found[of(one)], misses = one, 0
    return tuple(found.values())
