"""The errors a user can meet. Each message names the argument, the value, the rule and, where it helps, the remedy."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

FIRST = 5  # how many names are listed if none is near


class SketchMismatch(ValueError):
    """Two things made with different sketches or parameters were about to be combined."""


class CoverageError(ValueError):
    """A body parameter does not exist, cannot be covered, or never received a gradient."""


class NonFiniteError(ValueError):
    """A NaN or an infinity, with the parameter, step and example where it stands."""


class StoreError(ValueError):
    """A store that cannot be used as asked: other settings, in use, newer, or damaged."""


class SmoothnessError(ValueError):
    """Scores through a window of training in which the derivative does not predict small real changes."""


class AuditError(RuntimeError):
    """A self-check found a number that differs from autograd's: the run must not go on."""


def nearest(word: str, known: Iterable[str], most: int = 3) -> str:
    """The clause ``"; did you mean 'a', 'b'?"`` for a name that does not exist, or nothing.

    >>> nearest("coer", ["core", "head"])
    "; did you mean 'core'?"
    """
    close = difflib.get_close_matches(word, list(known), n=most, cutoff=0.5)
    return f"; did you mean {', '.join(map(repr, close))}?" if close else ""


def nearest_or_first(word: str, known: Iterable[str]) -> str:
    """A clause with the known names nearest to a wrong one; if none is near, with the first known names.

    >>> nearest_or_first("coer", ["core", "head"])
    "; did you mean 'core'?"
    >>> nearest_or_first("xyz", (f"q-{k}" for k in range(9)))
    "; the first are 'q-0', 'q-1', 'q-2', 'q-3', 'q-4', ..."
    >>> nearest_or_first("xyz", ["q-0"])
    "; there is only 'q-0'"
    """
    names = list(known)
    near = nearest(word, names)
    if near or not names:
        return near
    shown = ", ".join(map(repr, names[:FIRST]))
    if len(names) > FIRST:
        return f"; the first are {shown}, ..."
    return f"; there {'are' if len(names) > 1 else 'is'} only {shown}"
