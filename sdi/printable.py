"""printable: text from a user's data with control characters escaped, safe to print in a terminal, table or plot."""

from __future__ import annotations

from typing import Any


def printable(text: Any) -> str:
    r"""The text with every non-printable character written as an escape (\x1b), as `repr` does.

    An id may hold escape sequences, which set a terminal's title or clipboard, or a line end, which fakes a row.

    >>> print(printable("\x1b]0;title\x07 a\nb é"))
    \x1b]0;title\x07 a\nb é
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def printable_lines(text: Any) -> str:
    r"""The same for a message of several lines, with those after the first indented, so that none looks like our own.

    >>> print(printable_lines("differs:\n  m: 1\nsdi: all is well\r"))
    differs:
      m: 1
      sdi: all is well\r
    """
    first, *more = (printable(line) for line in str(text).split("\n"))
    return "\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in more)])
