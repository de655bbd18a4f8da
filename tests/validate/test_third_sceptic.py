"""A third sceptic's sketches: what got past the checks before they were mended is refused, the rest as the list says.

Of 60 broken ones judged 8 had been accepted, and of 15 right ones 1 refused; 88 are not judged yet.
"""

from __future__ import annotations

import inspect

import pytest
from first_fault import evidence_on
from third_sceptic import BROKEN, RIGHT
from third_sceptic.verdicts import FOUND, MENDED, NOT_JUDGED

from sdi.validate import PROPERTIES
from sdi.validate.report import GOOD, subject_of

pytestmark = pytest.mark.slow

DRAWS, EVERY = 700, 5
BY_NAME = {one.name: one for one in PROPERTIES}
REFUSED = {name: failed[0] for name, failed in FOUND.items() if name in BROKEN and failed}


def evidence(name, one, draws=DRAWS):
    cls = (BROKEN | RIGHT)[name]
    return evidence_on(BY_NAME[one], subject_of(f"{inspect.getfile(cls)}:{name}", (8, 6), 16, 0, draws))


def test_the_list_has_every_sketch_and_counts_what_was_wrong_before():
    assert {*FOUND, *NOT_JUDGED} == {*BROKEN, *RIGHT}
    assert (len(BROKEN), len(RIGHT), len(NOT_JUDGED)) == (129, 34, 88)
    assert sorted(MENDED) == sorted(name for name in BROKEN if FOUND.get(name) == ())
    assert [name for name in RIGHT if FOUND.get(name)] == ["SampleTrueClaim"]


@pytest.mark.parametrize(("name", "one"), [*MENDED.items(), *list(REFUSED.items())[::EVERY]])
def test_the_deciding_property_refuses_a_broken_sketch(name, one):
    found = evidence(name, one, 4000 if one == "listing" else DRAWS)  # which compares shares of rare draws
    assert found.verdict not in GOOD
    assert found.wrong


@pytest.mark.parametrize("one", ["scale", "conserving", "backends"])
def test_a_class_may_refuse_widths_that_are_small_for_a_shape(one):
    found = evidence("SampleTrueClaim", one, 2400)
    assert found.verdict in GOOD, (found.wrong, found.case)
