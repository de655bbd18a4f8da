"""What `sdi validate` says of a sketch class: of one property, or up to the first that does not hold."""

from __future__ import annotations

from sdi.validate import PROPERTIES, Evidence, Property
from sdi.validate.report import GOOD, subject_of
from sdi.validate.sketch_under_test import Subject

ENOUGH = 700  # draws that decide every property of Good, and of all that ship but the mask


def evidence_on(one: Property, subject: Subject) -> Evidence:
    """Of one property, those that it rests on not asked; what the class raises counts against it."""
    try:
        return one.check(subject)
    except Exception as error:
        return Evidence(0, "", f"it raised {type(error).__name__}: {error}", "where it raised")


def first_fault(
    sketch: str | type, draws: int = ENOUGH, leave_out: tuple[str, ...] = ()
) -> tuple[str, Evidence] | None:
    """The first property that does not hold; None where all do, which is when the report says passed."""
    subject = subject_of(sketch, (8, 6), 16, 0, draws)
    for one in (p for p in PROPERTIES if p.name not in leave_out):
        found = evidence_on(one, subject)
        if found.verdict not in GOOD:
            return one.name, found
    return None
