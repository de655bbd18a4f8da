"""A statement of the paper as a check that can fail.

A statement has a *claim*, the function under test (a closed form, a backend's verb, a family of hashes), and a
*check* that holds the claim against something independent. Its *mutants* are wrong claims: the same check must
reject every one of them, or it could not have failed. A statement without mutants is refused.

    @statement("count_sketch.variance", paper="Appendix B.1, CountSketch lemma", method="exact",
               claim=bounds.count_sketch_variance, mutants={"drops the cross term": ...})
    def check(claim, thorough):
        '''Var <CS x, CS y> = ...'''
        return Verdict.all(...)

A user's own statements live in a file of theirs: `sdi verify --statements FILE`.
"""

from __future__ import annotations

import fnmatch
import runpy
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Method = Literal["exact", "float64", "statistical"]


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, in how many cases, and as detail the first counterexample or the figure measured."""

    holds: bool
    cases: int
    detail: str = ""

    @classmethod
    def all(cls, cases: Iterable[tuple[Any, str]], detail: str = "") -> Verdict:
        """Holds if every case does; a case is (does it hold, how to say it if not).

        >>> Verdict.all([(True, "1"), (2 > 3, "2 > 3")])
        Verdict(holds=False, cases=2, detail='2 > 3')
        """
        count = 0
        for holds, text in cases:
            count += 1
            if not bool(holds):
                return cls(False, count, text)
        return cls(count > 0, count, detail if count else "no case was tried")

    def __and__(self, other: Verdict) -> Verdict:
        """Holds if both do; the cases add up, and the detail is that of the first failure."""
        if not self.holds:
            return self
        said = "; ".join(filter(None, (self.detail, other.detail))) if other.holds else other.detail
        return Verdict(other.holds, self.cases + other.cases, said)


Check = Callable[[Any, bool], Verdict]


@dataclass(frozen=True)
class Statement:
    name: str
    paper: str
    method: Method
    says: str
    check: Check
    claim: Any
    mutants: Mapping[str, Any]


@dataclass(frozen=True)
class Report:
    """One row of the table: a statement, or a mutant of it, and what became of it."""

    name: str
    paper: str
    method: Method
    says: str
    mutant: str | None
    holds: bool  # the statement holds; for a mutant: it was rejected
    cases: int
    seconds: float
    detail: str


_registry: dict[str, Statement] = {}


def statement(
    name: str, *, paper: str, method: Method, claim: Any, mutants: Mapping[str, Any]
) -> Callable[[Check], Check]:
    """A decorator that registers a check. Its docstring's first paragraph is the statement in our words.

    name: how `sdi verify` shows it. paper: where the paper states it. method: "exact", "float64" or "statistical".
    claim: what is checked, passed to the check. mutants: wrong claims by name, which the check must reject.
    """
    if not mutants:
        raise ValueError(f"statement {name!r} needs at least one mutant: a check that cannot fail is a defect")
    if method not in ("exact", "float64", "statistical"):
        raise ValueError(f"method of {name!r} must be 'exact', 'float64' or 'statistical', got {method!r}")

    def register(check: Check) -> Check:
        if name in _registry:
            raise ValueError(f"there are two statements named {name!r}")
        says = " ".join((check.__doc__ or "").strip().split("\n\n")[0].split())
        if not says:
            raise ValueError(f"statement {name!r} must say in its docstring what it states")
        _registry[name] = Statement(name, paper, method, says, check, claim, dict(mutants))
        return check

    return register


def statements(only: str = "*") -> list[Statement]:
    """The registered statements in the order of the paper. only: a pattern, or a part of a name."""
    pattern = only if any(c in only for c in "*?[") else f"*{only}*"
    return [s for s in _registry.values() if fnmatch.fnmatchcase(s.name, pattern)]


def load_statements(path: Path) -> list[Statement]:
    """Run a user's file and return the statements it registered. path: the Python file."""
    before = set(_registry)
    runpy.run_path(str(path))
    found = [s for name, s in _registry.items() if name not in before]
    if not found:
        raise ValueError(f"{path} registers no statement; decorate a check with sdi.proofs_checks.machinery.statement")
    return found


def run(s: Statement, thorough: bool = False, mutant: str | None = None) -> Report:
    """Check a statement, or, given a mutant's name, that the check rejects it. An exception counts as a failure.

    s: the statement. thorough: more and larger cases. mutant: the name of one of its mutants.
    """
    began = time.perf_counter()
    try:
        verdict = s.check(s.claim if mutant is None else s.mutants[mutant], thorough)
        holds, cases, detail = verdict.holds is (mutant is None), verdict.cases, verdict.detail
    except Exception as error:
        holds, cases, detail = False, 0, f"raised {type(error).__name__}: {error}"
    seconds = time.perf_counter() - began
    return Report(s.name, s.paper, s.method, s.says, mutant, holds, cases, seconds, detail)
