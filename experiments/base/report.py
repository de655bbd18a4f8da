"""Parts of a report in Markdown."""

from __future__ import annotations

from collections.abc import Sequence


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, with a line of `heads` above its `rows`.

    >>> print(table(("a", "b"), [("1", "2")]), end="")
    | a | b |
    |---|---|
    | 1 | 2 |
    """
    lines = [heads, *rows]
    drawn = ["| " + " | ".join(line) + " |" for line in lines]
    return "\n".join([drawn[0], "|" + "---|" * len(heads), *drawn[1:]]) + "\n"


def share(x: float | None) -> str:
    """A share `x` from 0 to 1 as a percentage.

    >>> share(0.93), share(None)
    ('93%', 'none')
    """
    return "none" if x is None else f"{100 * x:.4g}%"
