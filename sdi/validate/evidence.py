"""Evidence: what a property's check found. Property: the check, what it says, what it rests on, what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

UNDECIDED = (  # what to do then
    "claim no more in variance_factor() than the worst pair needs: a claim that leaves room for everything promises "
    "nothing. If it needs that much, take more --draws, or a larger --m"
)


@dataclass(frozen=True)
class Evidence:
    """What a check found: what failed, if anything did, and how sure that is.

    >>> Evidence(cases=3, wrong="it rounds", case="(1,)").verdict
    'fails'
    """

    cases: int  # how many were tried
    seen: str = ""  # what was looked at
    wrong: str | None = None  # what failed
    case: str | None = None  # the smallest on which it did
    alpha: float | None = None  # of a statistical check: the probability of a false failure, at most
    power: str | None = None  # what it would have noticed
    listed: bool = False  # whether it was also checked over every draw, at a tiny size
    applies: bool = True  # a property of something that the class may leave out, and does
    decided: bool = True  # not if a gross fault could have passed unseen: `wrong` says why

    @property
    def holds(self) -> bool:
        """Whether the property applies and nothing is wrong."""
        return self.wrong is None and self.applies

    @property
    def verdict(self) -> str:
        """One of "holds", "fails", "not decided" or "does not apply"."""
        if not self.applies:
            return "does not apply"
        return "holds" if self.holds else "fails" if self.decided else "not decided"

    @property
    def how(self) -> str:
        """How it was checked: "exact", "statistical" or "both"."""
        if not self.applies:
            return ""
        return "exact" if self.alpha is None else "both" if self.listed else "statistical"

    def message(self, says: str, spec: str, repeat: str) -> str:
        """What an assertion prints: the claim, what is wrong, the smallest case, the error rate, how to repeat it.

        says: the property. spec: the class, as named. repeat: a line that repeats the check.
        """
        if not self.decided:
            lines = [f"{spec}: not decided that {says}", f"  {self.wrong}", f"  {self.case}", f"  {UNDECIDED}"]
            return "\n".join([*lines, f"  repeat with: {repeat}"])
        lines = [f"{spec}: not true that {says}", f"  {self.wrong}"]
        if self.case is not None:
            lines.append(f"  smallest failing case: {self.case}")
        if self.alpha is None:
            lines.append("  the check is not statistical: it fails always or never")
        else:
            lines.append(f"  a good sketch fails this check with probability at most {self.alpha:.1g}")
        return "\n".join([*lines, f"  repeat with: {repeat}"])


Check = Callable[..., Evidence]  # of a sdi.validate.Subject; statistical ones take alpha, too
C = TypeVar("C", bound=Check)


@dataclass(frozen=True)
class Property:
    """A property that sketches must have. It is not tested where one that it rests on fails: the cause is named once.

    >>> PROPERTIES[0].name
    'protocol'
    """

    name: str  # one word
    says: str  # the claim
    remedy: str  # what to do if it fails
    check: Check  # a function of a Subject
    needs: tuple[str, ...] = ()  # names of those that it rests on


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
