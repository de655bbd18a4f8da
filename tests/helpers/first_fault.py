"""What `sdi validate` says of a sketch class, stopping at the first property that does not hold."""

from __future__ import annotations

from sdi.validate import PROPERTIES
from sdi.validate.report import GOOD, subject_of


def first_fault(sketch: str | type, draws: int) -> tuple[str, str] | None:
    """The property and what is wrong; None if every property holds, which is when the report says passed."""
    subject = subject_of(sketch, (8, 6), 16, 0, draws)
    for one in PROPERTIES:
        try:
            found = one.check(subject)
        except Exception as error:
            return one.name, f"it raised {type(error).__name__}: {error}"
        if found.verdict not in GOOD:
            return one.name, f"{found.verdict}: {found.wrong} | {found.case}"
    return None
