"""verify: run the paper's statements, or their mutants, and say what became of each."""

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
    """The rows of the table, and the places where the paper contradicts itself."""

    reports: list[Any]
    errata: list[dict[str, Any]]

    @property
    def passed(self) -> bool:
        return all(report.holds for report in self.reports)

    def save(self, path: Path, **context: object) -> None:
        """Written whole or not at all."""
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
    """Check every statement whose name matches `only`; with `mutants`, that every wrong claim is rejected.

    `statements` is a file of the user's own, checked after the paper's.
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
