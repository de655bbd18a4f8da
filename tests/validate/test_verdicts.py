"""`sdi validate` accepts every sketch that ships, and rejects broken ones for their own fault and for nothing else."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import broken_sketches
import pytest
from broken_sketches import ACROSS_PROCESSES, DRAWS, FAULTS, UNDECIDED
from first_fault import ENOUGH, evidence_on, first_fault
from good_sketch import Good
from right_sketches import RIGHT

from sdi.sketch.load import SHIPPED, load_sketch
from sdi.validate import PROPERTIES, Subject, validate
from sdi.validate import report as reports
from sdi.validate.evidence import first_wrong
from sdi.validate.properties.names import names
from sdi.validate.properties.scale import scale
from sdi.validate.properties.unbiased import unbiased
from sdi.validate.properties.variance import within_bound
from sdi.validate.report import subject_of

pytestmark = pytest.mark.slow

BY_NAME = {one.name: one for one in PROPERTIES}
OF_DRAWS = ("names", "scale", "unbiased", "variance")  # they take most of the time, and see float64 and apply only


def names_of(report, verdict):
    return {f.property for f in report.findings if f.verdict == verdict}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_sketch_that_ships_is_accepted(name, request):
    """At all sizes for the default and the exact one; of the others large draws take most of the time: at few."""
    if name not in ("tensor", "exact"):
        request.getfixturevalue("few_other_sizes")
    report = validate(load_sketch(name), draws=4000 if name == "mask" else ENOUGH, compare=False)
    assert report.passed, [(f.property, f.wrong, f.case) for f in report.findings if f.verdict != "holds"]
    assert len(report.findings) == len(PROPERTIES)
    apply = {p.name for p in PROPERTIES} - {"twin"}
    apply -= set() if hasattr(load_sketch(name), "enumerate_all") else {"listing"}
    assert names_of(report, "holds") == apply
    assert names_of(report, "does not apply") == {p.name for p in PROPERTIES} - apply
    assert report.counts == (len(apply), len(apply))
    assert report.alpha <= 5.1e-6
    how = {f.property: f.how for f in report.findings}
    assert how["variance"] == ("both" if hasattr(load_sketch(name), "enumerate_all") else "statistical")
    assert how["linear"] == "exact"


@pytest.mark.parametrize("right", RIGHT, ids=lambda cls: cls.__name__)
def test_a_right_sketch_of_an_unusual_kind_is_accepted(right, request):
    """At all sizes for EvenOnly, which refuses some. Doubles is Good to float64, so what sees nothing else is left out:
    Good's own report is in the command's test."""
    if right.__name__ != "EvenOnly":
        request.getfixturevalue("few_other_sizes")
    assert first_fault(right, leave_out=OF_DRAWS if right.__name__ == "Doubles" else ()) is None


@pytest.mark.parametrize("broken", FAULTS, ids=lambda cls: cls.__name__)
def test_a_broken_sketch_is_rejected_for_its_fault(broken):
    subject = subject_of(broken, (8, 6), 16, 0, DRAWS.get(broken, ENOUGH))
    for one in PROPERTIES:
        if one.name in FAULTS[broken]:
            found = evidence_on(one, subject)
            assert found.verdict == "fails"
            assert found.wrong
            assert found.case


# One of each property, and those whose verdict must not spread. Where draws are asked for, that takes most of the time:
# FEWER are asked only for the one that finds them, and Careless, which has five of their faults, for all.
WHOLE = (
    "ScaleByShape", "DrawsAgain", "HalfTheBound", "Rounds", "ReadsTheBuffer", "SevenSeeds", "WrongSize",
    "SharingBehindAClaim",
)  # fmt: skip
FEWER = (
    "BiasedSigns", "SharedBuckets", "HalfPrecision", "MeansOverTokens", "TwinWithoutSigns", "ListsTooFew",
    "SwallowsNan",
)  # fmt: skip


class Careless(
    broken_sketches.SwallowsNan,
    broken_sketches.HalfPrecision,
    broken_sketches.MeansOverTokens,
    broken_sketches.SharedBuckets,
    broken_sketches.BiasedSigns,
):
    """Five faults: all are named, and nothing else."""


EXPECTED = {**FAULTS, Careless: {"nonfinite", "dtypes", "factored", "names", "unbiased"}}
BROKEN = [Careless, *(getattr(broken_sketches, name) for name in (*WHOLE, *FEWER))]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda cls: cls.__name__)
@pytest.mark.usefixtures("few_other_sizes")
def test_a_broken_sketch_is_rejected_for_nothing_else(broken, monkeypatch):
    if broken.__name__ in FEWER:
        left_out = set(OF_DRAWS) - EXPECTED[broken]
        monkeypatch.setattr(reports, "PROPERTIES", [p for p in PROPERTIES if p.name not in left_out])
    report = validate(broken, draws=ENOUGH, compare=False)
    assert set(report.failed) == EXPECTED[broken]
    assert names_of(report, "not decided") == ({UNDECIDED[broken]} if broken in UNDECIDED else set())
    assert not report.passed
    needs = {p.name: set(p.needs) for p in PROPERTIES}
    untested = names_of(report, "not tested")
    bad = untested | set(report.failed) | names_of(report, "not decided")
    for name in untested:
        assert needs[name] & bad, name
    for finding in report.findings:
        if finding.verdict == "fails":
            assert finding.wrong
            assert finding.case
            assert finding.remedy


@pytest.mark.parametrize("vague", UNDECIDED, ids=lambda cls: cls.__name__)
@pytest.mark.usefixtures("few_other_sizes")
def test_a_claim_that_leaves_room_for_a_gross_error_decides_nothing(vague, monkeypatch):
    """The whole report of one of them, SharingBehindAClaim, is above."""
    monkeypatch.setattr(reports, "PROPERTIES", [BY_NAME[UNDECIDED[vague]]])
    report = validate(vague, draws=ENOUGH, compare=False)
    assert not report.passed
    assert report.undecided == (UNDECIDED[vague],)
    (finding,) = (f for f in report.findings if f.verdict == "not decided")
    assert f"the claimed variance is {vague.variance_factor(vague):.3g}" in finding.wrong
    assert "variance_factor()" in finding.remedy
    assert "--draws" in finding.remedy


class ClaimsTwo(Good):
    """A large claim, not a vacuous one: a mask of a third of the entries needs as much."""

    def variance_factor(self):
        return 2.0


@pytest.mark.parametrize("check", [names, scale, unbiased])
@pytest.mark.usefixtures("few_other_sizes")
def test_a_good_sketch_is_decided_by_the_draws_that_the_report_asks_for(check):
    subject = subject_of(ClaimsTwo, (8, 6), 16, 0, 100)
    vague = check(subject)
    assert vague.verdict == "not decided"
    asked = int(re.search(r"takes ([\d,]+) draws", vague.wrong)[1].replace(",", ""))
    assert check(replace(subject, draws=asked - 1)).verdict == "not decided"
    assert check(replace(subject, draws=asked)).verdict == "holds"


@pytest.mark.parametrize("broken", ACROSS_PROCESSES, ids=lambda cls: cls.__name__)
def test_what_only_another_process_shows_is_found(broken):
    spec, one = f"{inspect.getfile(broken)}:{broken.__name__}", BY_NAME[ACROSS_PROCESSES[broken]]
    found = one.check(Subject(load_sketch(spec), spec))
    assert "in another process" in found.wrong or "in a new process" in found.wrong
    assert first_fault(broken, leave_out=OF_DRAWS) is None  # here


@pytest.mark.parametrize(
    ("broken", "case"),
    [
        (broken_sketches.Rounds, "shape (1,), 1 number, a=1, b=1e-07, x=[1], y=[1]"),
        (broken_sketches.NoSigns, "shape (2,), m=1, sparse, x ~ [1, 0], y ~ [0, 1]"),
        (broken_sketches.WritesToItsArgument, "shape (1,), 1 number, x=[5]"),
    ],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_the_smallest_failing_case_is_shown(broken, case):
    (name,) = FAULTS[broken]
    found = BY_NAME[name].check(subject_of(broken, (8, 6), 16, 0, 300))
    assert found.verdict == "fails"
    assert found.case.startswith(case)


class ListsNothing(Good):
    """It could list, and does not."""

    @classmethod
    def enumerate_all(cls, shape, m):
        raise NotImplementedError


@pytest.mark.parametrize("unlisted", [Good, ListsNothing])
@pytest.mark.usefixtures("few_other_sizes")
def test_a_list_that_is_not_there_neither_holds_nor_fails(unlisted, monkeypatch):
    """Of the rest, what is asked is whether `unbiased`, which rests on it, is tested all the same."""
    few = ("protocol", "repeatable", "listing", "twin", "unbiased")
    monkeypatch.setattr(reports, "PROPERTIES", [p for p in PROPERTIES if p.name in few])
    report = validate(unlisted, draws=ENOUGH, compare=False)
    assert names_of(report, "does not apply") == {"listing", "twin"}
    (finding,) = (f for f in report.findings if f.property == "listing")
    assert (finding.how, finding.cases, finding.wrong, finding.remedy) == ("", 0, None, None)
    assert names_of(report, "holds") == {"protocol", "repeatable", "unbiased"}
    assert report.passed
    assert report.counts == (3, 3)


def test_a_class_that_raises_is_told_where():
    (finding,) = (f for f in validate(broken_sketches.RaisesOnVectors).findings if f.verdict == "fails")
    assert "it raised ValueError: not enough values to unpack" in finding.wrong
    assert "broken_claims.py, line" in finding.case
    assert "rows, cols = shape" in finding.case


def test_a_check_that_tries_nothing_is_a_defect():
    with pytest.raises(AssertionError, match="cannot fail"):
        first_wrong([], "nothing")


@pytest.mark.usefixtures("few_other_sizes")
def test_a_class_that_is_changed_between_two_calls_is_looked_at_again():
    class Changed(Good):
        pass

    assert within_bound(subject_of(Changed, (8, 6), 16, 0, 500)).holds
    Changed.variance_factor = broken_sketches.HalfTheBound.variance_factor
    assert not within_bound(subject_of(Changed, (8, 6), 16, 0, 500)).holds
