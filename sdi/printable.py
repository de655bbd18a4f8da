"""printable: text from a user's data with control characters escaped, safe to print in a terminal, table or plot.

`html_table` is the same for a notebook.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from typing import Any


def printable(text: Any) -> str:
    r"""The text with every non-printable character written as an escape (\x1b), as `repr` does.

    An id may hold escape sequences, which set a terminal's title or clipboard, or a line end, which fakes a row.

    >>> print(printable("\x1b]0;title\x07 a\nb é"))
    \x1b]0;title\x07 a\nb é
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def printable_id(text: Any) -> str:
    """An id as a name to show and to click on: printable, and in quotes if there would be nothing to see.

    >>> printable_id("t-1"), printable_id(""), printable_id("  ")
    ('t-1', "''", "'  '")
    """
    return printable(text) if str(text).strip() else repr(str(text))


def printable_lines(text: Any) -> str:
    r"""The same for a message of several lines, with those after the first indented, so that none looks like our own.

    >>> print(printable_lines("differs:\n  m: 1\nsdi: all is well\r"))
    differs:
      m: 1
      sdi: all is well\r
    """
    first, *more = (printable(line) for line in str(text).split("\n"))
    return "\n".join([first, *(line if line.startswith("  ") else f"  {line}" for line in more)])


def html_table(caption: str, head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A table for a notebook, whose every text is escaped. caption: a line above it. head: names of the columns.

    >>> html_table("<b>", ["a"], [["<i>"]])
    '<p>&lt;b&gt;</p><table><thead><tr><th>a</th></tr></thead><tbody><tr><td>&lt;i&gt;</td></tr></tbody></table>'
    """
    top = "".join(f"<th>{html.escape(printable(name))}</th>" for name in head)
    lines = ("".join(f"<td>{html.escape(printable(cell))}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    title = f"<p>{html.escape(printable(caption))}</p>"
    return f"{title}<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


RISING = "▁▂▃▄▅▆▇█"


def spark_signs(values: Iterable[float]) -> list[tuple[str, float]]:
    """A trajectory as one character per step with its value: its height is |value|; a dot is exactly zero.

    >>> "".join(sign for sign, _ in spark_signs([1.0, -0.5, 0.0]))
    '█▄·'
    """
    found = list(values)
    most = max((abs(v) for v in found), default=0.0) or 1.0
    return [("·" if v == 0 else RISING[max(0, math.ceil(8 * abs(v) / most) - 1)], v) for v in found]
