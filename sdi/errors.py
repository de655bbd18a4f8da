"""The errors a user can meet. Each message names the argument, the value, the rule and, where it helps, the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class SketchMismatch(ValueError):
    """Two things made with different sketches or parameters were about to be combined."""


class CoverageError(ValueError):
    """A body parameter does not exist, cannot be covered, or never received a gradient."""


class NonFiniteError(ValueError):
    """A NaN or an infinity, with the parameter, step and example where it stands."""


class StoreError(ValueError):
    """A store that cannot be used as asked: other settings, in use, newer, or damaged."""


class AuditError(RuntimeError):
    """A self-check found a number that differs from autograd's: the run must not go on."""


def nearest(word: str, known: Iterable[str], most: int = 3) -> str:
    """The clause ``"; did you mean 'a', 'b'?"`` for a name that does not exist, or nothing.

    >>> nearest("coer", ["core", "head"])
    "; did you mean 'core'?"
    """
    close = difflib.get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""
