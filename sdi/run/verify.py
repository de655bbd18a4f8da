"""verify: check the paper's statements, or that their mutants are rejected, and report each verdict."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sdi.backends import room
from sdi.files import write_whole


@dataclass(frozen=True)
class Verification:
    """What `verify` found: a report per statement, and the paper's errata."""

    reports: list[Any]
    errata: list[dict[str, Any]]

    @property
    def passed(self) -> bool:
        return all(report.holds for report in self.reports)

    def save(self, path: Path, **context: object) -> None:
        """Write all verdicts and errata as JSON. path: the file, written whole or not at all."""
        content = {
            **context,
            "passed": self.passed,
            "statements": [asdict(r) for r in self.reports],
            "errata": self.errata,
        }
        write_whole(path, (json.dumps(content, indent=1) + "\n").encode())


def verify(
    only: str = "*",
    thorough: bool = False,
    mutants: bool = False,
    statements: Path | None = None,
    progress: Callable[[str], None] = lambda name: None,
) -> Verification:
    """Check the paper's statements, or, with `mutants`, check that their wrong variants are rejected.

    only: a pattern of statement names. thorough: more and larger cases.
    statements: a file of the user's own, checked after the paper's. progress: called with each statement's name.
    """
    checks = room("proofs_checks")
    if statements is not None:
        checks.load_statements(statements)
    chosen = checks.statements(only)
    if not chosen:
        known = ", ".join(s.name for s in checks.statements())
        raise ValueError(f"only must match at least one statement, got {only!r}; there are: {known}")
    reports = []
    for s in chosen:
        for mutant in s.mutants if mutants else [None]:
            progress(s.name)
            reports.append(checks.run(s, thorough=thorough, mutant=mutant))
    asked = any(s.name == "errata" for s in chosen)
    return Verification(reports, [e.as_row() for e in checks.all_errata()] if asked and not mutants else [])
