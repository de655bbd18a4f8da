"""python docs/make/theory.py writes docs/theory.md: every checked statement and every misprint, with its file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from sdi.backends import room

ROOT = Path(__file__).resolve().parents[2]
HEAD = """\
# The theory, computed

`sdi verify` computes every mathematical statement of the paper, and those on our own sketches and error bars: many over
*all* hashes, in exact arithmetic. Each check has wrong claims, its mutants, that it must reject (`sdi verify
--mutants`), or it could not have failed. This page is made of the checks themselves by `python docs/make/theory.py`; a
test compares them.

*exact*: in integers or fractions, over every case of a size. *float64*: to rounding. *statistical*: a test whose error
rate and power are stated in its file.
"""
ERRATA = """\
## Where the paper is not right as printed

Never settled by reading: both readings are computed, and the one that holds is ours. `sdi verify` prints the verdicts.
What a verdict rests on beside the computation is said, where there is anything.
"""


def page() -> str:
    """The page's text."""
    checks = room("proofs_checks")
    lines = [
        HEAD,
        f"## {len(checks.statements())} statements\n",
        "| statement | in our words | how | mutants | where |",
    ]
    lines.append("|---|---|---|---|---|")
    lines += [
        f"| [{s.name}](../{file_of(s.check)}) | {cell(s.says)} | {s.method} | {len(s.mutants)} | {cell(s.paper)} |"
        for s in checks.statements()
    ]
    lines += ["", ERRATA, "| misprint | where | written | true | decided by |", "|---|---|---|---|---|"]
    for e in checks.all_errata():
        how = cell(e.how) + (f"; rests on {cell(e.rests_on)}" if e.rests_on else "")
        lines.append(
            f"| [{e.name}](../{file_of(e.decide)}) | {cell(e.where)} | {cell(e.written)} | {cell(e.true)} | {how} |"
        )
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """A text that can stand in a table: bars, which would end a cell, are escaped, and nothing is taken for HTML."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


def file_of(function: Any) -> str:
    """The file of a check, from the root of the repository; of one that is wrapped, that of what it wraps."""
    for inner in function.__closure__ or ():
        if callable(inner.cell_contents) and "proofs_checks" in inner.cell_contents.__module__:
            function = inner.cell_contents
            break
    return Path(sys.modules[function.__module__].__file__ or "").resolve().relative_to(ROOT).as_posix()


if __name__ == "__main__":
    (ROOT / "docs" / "theory.md").write_text(page(), encoding="utf-8")
