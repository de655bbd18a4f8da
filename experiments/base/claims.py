"""Claim: what the paper says beside what a run shows, and whether the two agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .report import table


class Claim(NamedTuple):
    """A claim of the paper, judged on a run by a rule that its own function states."""

    paper: str  # what it says, in our words
    here: str  # what the run shows
    holds: bool  # whether that agrees
    without: str = ""  # controls that show the same, where the claim can be asked of controls


def claims_table(claims: Sequence[Claim], here: str) -> str:
    """The claims as a table in Markdown, and a sentence that names those that are not reproduced.

    here: what the run's column is headed by. A column of controls is added if any claim names one.

    >>> print(claims_table([Claim("it grows", "it falls", False)], "here"), end="")
    | paper | here |  |
    |---|---|---|
    | it grows | it falls | **not reproduced** |
    <BLANKLINE>
    Not reproduced: it grows.
    """
    controls = any(one.without for one in claims)
    heads = ("paper", here, "", *(["shown by controls, too"] if controls else []))
    rows = [
        (one.paper, one.here, "reproduced" if one.holds else "**not reproduced**", *([one.without] * controls))
        for one in claims
    ]
    missing = "; ".join(one.paper for one in claims if not one.holds)
    words = f"Not reproduced: {missing}." if missing else "All of them are reproduced."
    return table(heads, rows) + f"\n{words}\n"
