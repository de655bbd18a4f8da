"""The sketches of a sceptic who had not read the checks: each gets the verdict that the list says it gets.

Only the property that decides is asked. Where that takes many draws, a fixed part stands for all; the others:

    python tests/helpers/sceptic_judge.py
"""

from __future__ import annotations

from collections import Counter

import pytest
from first_fault import evidence_on
from sceptic_judge import BY_NAME, SKETCHES, subject
from sceptic_verdicts import UNJUDGED, VERDICTS

from sdi.validate.report import GOOD

pytestmark = pytest.mark.slow

DRAWS, EVERY = 700, 5
STATISTICAL = ("scale", "unbiased", "variance")
BROKEN = [name for name, case in SKETCHES.items() if case.broken]
RIGHT = [name for name, case in SKETCHES.items() if not case.broken]
EXACT = [name for name in BROKEN if VERDICTS[name].after not in (None, UNJUDGED, *STATISTICAL)]
SEEN_BEFORE = [name for name in BROKEN if VERDICTS[name].after == VERDICTS[name].before in STATISTICAL]
ASKED_OF_RIGHT = [one for one in BY_NAME if one not in (*STATISTICAL, "conserving", "backends")]


def test_the_list_has_every_sketch_and_counts_what_was_wrong_before():
    assert list(VERDICTS) == list(SKETCHES)
    assert (len(BROKEN), len(RIGHT)) == (178, 45)
    before = Counter(VERDICTS[name].before for name in BROKEN)
    assert before[None] == 21
    assert before[UNJUDGED] == 0
    assert Counter(VERDICTS[name].before for name in RIGHT) == {None: 25, UNJUDGED: 20}


@pytest.mark.parametrize("name", EXACT + SEEN_BEFORE[::EVERY])
def test_the_deciding_property_refuses_a_broken_sketch(name):
    found = evidence_on(BY_NAME[VERDICTS[name].after], subject(SKETCHES[name], DRAWS))
    assert found.verdict not in GOOD
    assert found.wrong


@pytest.mark.parametrize(("k", "name"), list(enumerate(RIGHT)), ids=RIGHT)
def test_a_right_sketch_is_not_refused(k, name):
    """One property of each, in turn: all of one take ten seconds and more."""
    found = evidence_on(BY_NAME[ASKED_OF_RIGHT[k % len(ASKED_OF_RIGHT)]], subject(SKETCHES[name], DRAWS))
    assert found.verdict in GOOD, (found.wrong, found.case)
