"""Evidence: what a property's check found. Property: the check, what it says, what it rests on, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from sdi.validate.subject import Subject


@dataclass(frozen=True)
class Evidence:
    """`wrong` and `case` say what failed, on the smallest case that was tried; `seen` what was looked at."""

    cases: int
    seen: str = ""
    wrong: str | None = None
    case: str | None = None
    alpha: float | None = None  # of a statistical check: the probability of a false failure, at most
    power: str | None = None  # what it would have noticed
    listed: bool = False  # whether it was also checked over every draw, at a tiny size
    applies: bool = True  # a property of something that the class may leave out, and does

    @property
    def holds(self) -> bool:
        return self.wrong is None and self.applies

    @property
    def verdict(self) -> str:
        return "holds" if self.holds else "fails" if self.applies else "does not apply"

    @property
    def how(self) -> str:
        if not self.applies:
            return ""
        return "exact" if self.alpha is None else "both" if self.listed else "statistical"

    def message(self, says: str, subject: Subject) -> str:
        """What an assertion prints: the claim, what is wrong, the smallest case, the error rate, how to repeat it."""
        lines = [f"{subject.spec}: not true that {says}", f"  {self.wrong}"]
        if self.case is not None:
            lines.append(f"  smallest failing case: {self.case}")
        if self.alpha is None:
            lines.append("  the check is not statistical: it fails always or never")
        else:
            lines.append(f"  a good sketch fails this check with probability at most {self.alpha:.1g}")
        lines.append(
            f"  repeat with shape={subject.shape}, m={subject.m}, seed={subject.seed}, draws={subject.draws}, "
            f"or: sdi validate {subject.spec} --seed {subject.seed}"
        )
        return "\n".join(lines)


Check = Callable[..., Evidence]  # of a Subject; statistical ones take alpha, too
C = TypeVar("C", bound=Check)


@dataclass(frozen=True)
class Property:
    """One row of the table. A property is not tested where one that it rests on fails: the cause is named once."""

    name: str
    says: str
    remedy: str
    check: Check
    needs: tuple[str, ...] = ()


Case = str | Callable[[], str]  # a text, or how to get it: most are never shown
Try = tuple[str | None, Case]
PROPERTIES: list[Property] = []


def sketch_property(name: str, *, says: str, remedy: str, needs: tuple[str, ...] = ()) -> Callable[[C], C]:
    """Register a check as a row of `sdi validate`, in the order of the imports."""

    def register(check: C) -> C:
        PROPERTIES.append(Property(name, says, remedy, check, ("protocol", *needs)))
        return check

    return register


def first_wrong(tries: Iterable[Try], seen: str) -> Evidence:
    """Evidence from tries in the order of their size, each (what is wrong or None, the case or how to say it)."""
    count = 0
    for wrong, case in tries:
        count += 1
        if wrong is not None:
            return Evidence(count, seen, wrong, case() if callable(case) else case)
    assert count, "a check that tries nothing cannot fail"
    return Evidence(count, seen)
