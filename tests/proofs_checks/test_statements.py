"""Every statement holds, and its check rejects every wrong claim."""

from __future__ import annotations

import pytest

import sdi.proofs_checks as proofs

pytestmark = pytest.mark.slow


STATEMENTS = proofs.statements()


@pytest.mark.parametrize("s", STATEMENTS, ids=lambda s: s.name)
def test_statement_holds(s: proofs.Statement) -> None:
    report = proofs.run(s)
    assert report.holds, report.detail
    assert report.cases > 0


@pytest.mark.parametrize(
    ("s", "mutant"), [(s, m) for s in STATEMENTS for m in s.mutants], ids=lambda v: getattr(v, "name", v)
)
def test_mutant_is_rejected(s: proofs.Statement, mutant: str) -> None:
    report = proofs.run(s, mutant=mutant)
    assert report.holds, report.detail
    assert report.detail, "a rejection must say what it met"
