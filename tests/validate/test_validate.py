"""`sdi validate` accepts every sketch that ships, rejects broken ones for their own fault, and keeps to its rates."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import replace
from pathlib import Path

import broken_sketches
import good_sketch
import numpy as np
import pytest
from broken_sketches import ACROSS_PROCESSES, DRAWS, FAULTS, UNDECIDED
from first_fault import evidence_on, first_fault
from good_sketch import Good
from rich.console import Console
from right_sketches import RIGHT
from scipy.stats import binom
from typer.testing import CliRunner

from sdi.cli import app
from sdi.cli.validate import show_report
from sdi.sketch.load import SHIPPED, load_sketch
from sdi.sketch.shipped.count_and_tensor import CountSketch
from sdi.validate import PROPERTIES, Subject, validate
from sdi.validate import trial as trials
from sdi.validate.adversary import most_varying, variance
from sdi.validate.compare_shipped import Standing
from sdi.validate.enumeration import enumerations
from sdi.validate.evidence import first_wrong
from sdi.validate.pairs import KINDS, pair
from sdi.validate.properties.names import names
from sdi.validate.properties.scale import scale
from sdi.validate.properties.unbiased import unbiased
from sdi.validate.properties.variance import within_bound
from sdi.validate.report import subject_of
from sdi.validate.sketch_under_test import SEEDS
from sdi.validate.statistics.frequency_test import as_often_as_listed
from sdi.validate.statistics.mean_test import COARSEST, POWER, draws_to_see, mean_is
from sdi.validate.statistics.sign_test import products_needed, signs_are_fair
from sdi.validate.statistics.variance_test import mean_is_at_most, variance_is_at_most

pytestmark = pytest.mark.slow


BROKEN, GOOD = Path(broken_sketches.__file__), Path(good_sketch.__file__)
ENOUGH = 700  # draws that decide every property of Good, and of all that ship but the mask
ALPHA, CHANCE = 0.05, 1e-6  # the rate that is tested, and the probability that its test fails by chance
runner = CliRunner()


def names_of(report, verdict):
    return {f.property for f in report.findings if f.verdict == verdict}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_sketch_that_ships_is_accepted(name):
    report = validate(load_sketch(name), draws=4000 if name == "mask" else ENOUGH, compare=False)
    assert report.passed, [(f.property, f.wrong, f.case) for f in report.findings if f.verdict != "holds"]
    assert len(report.findings) == len(PROPERTIES)
    apply = {p.name for p in PROPERTIES} - {"twin"}
    apply -= set() if hasattr(load_sketch(name), "enumerate_all") else {"listing"}
    assert names_of(report, "holds") == apply
    assert report.counts == (len(apply), len(apply))
    assert report.alpha <= 5.1e-6
    how = {f.property: f.how for f in report.findings}
    assert how["variance"] == ("both" if hasattr(load_sketch(name), "enumerate_all") else "statistical")
    assert how["linear"] == "exact"


@pytest.mark.parametrize("right", RIGHT, ids=lambda cls: cls.__name__)
def test_a_right_sketch_of_an_unusual_kind_is_accepted(right):
    assert first_fault(right, ENOUGH) is None


@pytest.mark.parametrize("broken", FAULTS, ids=lambda cls: cls.__name__)
def test_a_broken_sketch_is_rejected_for_its_fault(broken):
    subject = subject_of(broken, (8, 6), 16, 0, DRAWS.get(broken, ENOUGH))
    for one in PROPERTIES:
        if one.name in FAULTS[broken]:
            found = evidence_on(one, subject)
            assert found.verdict == "fails"
            assert found.wrong
            assert found.case


# One of each property, and those whose verdict must not spread: the whole report takes seconds.
WHOLE = (
    "BiasedSigns", "SharedBuckets", "ScaleByShape", "DrawsAgain", "HalfTheBound", "Rounds", "ReadsTheBuffer",
    "SevenSeeds", "HalfPrecision", "MeansOverTokens", "TwinWithoutSigns", "WrongSize", "ListsTooFew", "SwallowsNan",
    "SharingBehindAClaim",
)  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_broken_sketch_is_rejected_for_nothing_else(name):
    broken = getattr(broken_sketches, name)
    report = validate(broken, draws=ENOUGH, compare=False)
    assert set(report.failed) == FAULTS[broken]
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
def test_a_claim_that_leaves_room_for_a_gross_error_decides_nothing(vague):
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
def test_a_good_sketch_is_decided_by_the_draws_that_the_report_asks_for(check):
    subject = subject_of(ClaimsTwo, (8, 6), 16, 0, 100)
    vague = check(subject)
    assert vague.verdict == "not decided"
    asked = int(re.search(r"takes ([\d,]+) draws", vague.wrong)[1].replace(",", ""))
    assert check(replace(subject, draws=asked - 1)).verdict == "not decided"
    assert check(replace(subject, draws=asked)).verdict == "holds"


@pytest.mark.parametrize("broken", ACROSS_PROCESSES, ids=lambda cls: cls.__name__)
def test_what_only_another_process_shows_is_found(broken):
    spec = f"{inspect.getfile(broken)}:{broken.__name__}"
    (found,) = (p.check(Subject(load_sketch(spec), spec)) for p in PROPERTIES if p.name == ACROSS_PROCESSES[broken])
    assert "in another process" in found.wrong or "in a new process" in found.wrong
    here = validate(broken, draws=ENOUGH, compare=False)
    assert here.passed


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
    (finding,) = (f for f in validate(broken, draws=300, compare=False).findings if f.verdict == "fails")
    assert finding.case.startswith(case)


class ListsNothing(Good):
    """It could list, and does not."""

    @classmethod
    def enumerate_all(cls, shape, m):
        raise NotImplementedError


@pytest.mark.parametrize("unlisted", [Good, ListsNothing])
def test_a_list_that_is_not_there_neither_holds_nor_fails(unlisted):
    report = validate(unlisted, draws=ENOUGH, compare=False)
    assert names_of(report, "does not apply") == {"listing", "twin"}
    (finding,) = (f for f in report.findings if f.property == "listing")
    assert (finding.how, finding.cases, finding.wrong, finding.remedy) == ("", 0, None, None)
    assert names_of(report, "not tested") == set()  # what rests on it is tested all the same
    assert report.passed
    assert report.counts == (len(PROPERTIES) - 2, len(PROPERTIES) - 2)


def test_a_class_that_raises_is_told_where():
    (finding,) = (f for f in validate(broken_sketches.RaisesOnVectors).findings if f.verdict == "fails")
    assert "it raised ValueError: not enough values to unpack" in finding.wrong
    assert "broken_claims.py, line" in finding.case
    assert "rows, cols = shape" in finding.case


def test_a_check_that_tries_nothing_is_a_defect():
    with pytest.raises(AssertionError, match="cannot fail"):
        first_wrong([], "nothing")


def test_a_class_that_is_changed_between_two_calls_is_looked_at_again():
    class Changed(Good):
        pass

    assert within_bound(subject_of(Changed, (8, 6), 16, 0, 500)).holds
    Changed.variance_factor = broken_sketches.HalfTheBound.variance_factor
    assert not within_bound(subject_of(Changed, (8, 6), 16, 0, 500)).holds


# the statistics


def heavy(rng, n):
    """Mean 1, variance 49, and most of it in one number of fifty."""
    return (rng.random(n) < 0.02) * 50.0


HEAVY = {"mean": 1.0, "variance": 49.0}
RUNS = 400


@pytest.mark.sdi_statistical(alpha=5 * CHANCE)
def test_right_moments_are_rejected_no_more_often_than_stated(sdi_seed):
    rng = np.random.default_rng([sdi_seed, 1])
    limit = binom.ppf(1 - CHANCE, RUNS, ALPHA)
    means = sum(mean_is(HEAVY["mean"], heavy(rng, 200), HEAVY["variance"], ALPHA).rejected for _ in range(RUNS))
    spreads = sum(variance_is_at_most(HEAVY["variance"], heavy(rng, 200), ALPHA).rejected for _ in range(RUNS))
    signs = sum(signs_are_fair(rng.standard_cauchy(200), ALPHA).rejected for _ in range(RUNS))
    assert means <= limit
    assert spreads <= limit
    assert signs <= limit
    squares = sum(mean_is_at_most(HEAVY["variance"], (heavy(rng, 200) - 1) ** 2, ALPHA).rejected for _ in range(RUNS))
    chances = np.array([0.7, 0.2, 0.06, 0.04])
    lists = sum(not as_often_as_listed(chances, rng.choice(4, 200, p=chances), ALPHA) for _ in range(RUNS))
    assert squares <= limit
    assert lists <= limit


def test_other_chances_than_listed_are_found():
    rng = np.random.default_rng(5)
    coins = (rng.random(20_000) < 0.53).astype(int)
    assert not as_often_as_listed(np.array([0.5, 0.5]), coins, 1e-7)
    assert not as_often_as_listed(np.array([0.25, 0.25, 0.5]), rng.integers(3, size=2000), 1e-7)
    assert as_often_as_listed(np.array([1.0]), np.zeros(10, dtype=int), 1e-7)


@pytest.mark.sdi_statistical(alpha=2 * CHANCE)
def test_a_bias_of_the_stated_size_is_found_as_often_as_stated(sdi_seed):
    rng = np.random.default_rng([sdi_seed, 2])
    draws = [heavy(rng, 2000) for _ in range(200)]
    bias = mean_is(HEAVY["mean"], draws[0], HEAVY["variance"], ALPHA).resolution
    assert 0 < bias < 3
    for side in (-1, 1):
        found = sum(mean_is(HEAVY["mean"] + side * bias, z, HEAVY["variance"], ALPHA).rejected for z in draws)
        assert found >= binom.ppf(CHANCE, len(draws), POWER)


@pytest.mark.sdi_statistical(alpha=CHANCE)
def test_a_surplus_of_one_sign_is_found_as_often_as_stated(sdi_seed):
    rng = np.random.default_rng([sdi_seed, 4])
    n = products_needed(ALPHA)
    assert signs_are_fair(np.zeros(n), ALPHA).resolution <= COARSEST < signs_are_fair(np.zeros(n - 1), ALPHA).resolution
    draws = [np.where(rng.random(n) < (1 + COARSEST) / 2, 1.0, -1.0) for _ in range(200)]
    found = sum(signs_are_fair(z, ALPHA).rejected for z in draws)
    assert found >= binom.ppf(CHANCE, len(draws), POWER)


@pytest.mark.parametrize("variance", [1e-4, 0.125, 2.0, 1e6])
def test_the_draws_asked_for_are_the_fewest_that_decide(variance):
    n = int(draws_to_see(COARSEST, variance, ALPHA))
    z = np.zeros(min(n, 10_000))
    if n == len(z):
        assert mean_is(0.0, z, variance, ALPHA).resolution <= COARSEST < mean_is(0.0, z[1:], variance, ALPHA).resolution
    assert mean_is(0.0, z, variance, ALPHA).needed == n


@pytest.mark.sdi_statistical(alpha=CHANCE)
def test_half_the_true_variance_is_refuted(sdi_seed):
    z = np.random.default_rng([sdi_seed, 3]).standard_normal(2000)
    test = variance_is_at_most(0.5, z, 1e-7)
    assert test.rejected
    assert 0.5 < test.least < 1.0
    assert not variance_is_at_most(test.least * 1.0001, z, 1e-7).rejected
    assert variance_is_at_most(test.least * 0.9999, z, 1e-7).rejected


def test_few_draws_promise_nothing_and_constants_have_no_variance():
    assert mean_is(0.0, np.zeros(10), 1.0, 1e-6).resolution == float("inf")
    assert not mean_is(2.0, np.full(10, 2.0), 0.0, 1e-6).rejected
    assert mean_is(2.0, np.full(10, 2.001), 0.0, 1e-6).rejected
    assert not variance_is_at_most(0.0, np.full(100, 0.1), 1e-6).rejected
    assert variance_is_at_most(0.0, np.arange(100.0), 1e-6).rejected


def test_draws_that_judge_have_not_been_seen():
    most = SEEDS // 10  # draws that Subject allows
    assert trials.SEEK + most // 8 <= trials.CHOOSE
    assert trials.CHOOSE + most // 8 <= trials.JUDGE
    assert trials.JUDGE + most <= SEEDS
    t = trials.trial(Subject(Good, "<Good>", draws=100), (8, 6), 16)
    assert {p.kind for p in t.pairs} == set(KINDS)
    assert not {tuple(row) for row in t.seen} & {tuple(row) for row in t.fresh}


def test_a_parameter_too_large_for_a_search_is_said_to_be():
    subject = Subject(Good, "<Good>", (33, 32), 8, draws=100)
    assert not trials.trial(subject, (33, 32), 8).searched
    assert "(33, 32) is too large for a search" in within_bound(subject).seen


def test_the_adversary_finds_no_less_than_thousands_of_random_pairs():
    subject = Subject(CountSketch, "<CountSketch>", (3,), 2)
    (every,) = enumerations(subject)
    rng = np.random.default_rng(0)
    found = most_varying(every.S, every.weights, rng.standard_normal((4, 3)), (3,))
    worst = max(variance(every.S, every.weights, p) for p in found)
    tried = [pair("random", *rng.standard_normal((2, 3))) for _ in range(3000)]
    assert worst >= max(variance(every.S, every.weights, p) for p in tried)
    assert worst == pytest.approx(2 / 3, rel=1e-3)  # 2 / m (1 - 1 / d) at equal entries


# the command


def call(*arguments, code):
    result = runner.invoke(app, ["validate", *map(str, arguments)], env={"COLUMNS": "80"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_the_command_prints_one_json_document():
    found = json.loads(call("exact", "--draws", 100, "--json", code=0).stdout)
    assert found["passed"] is True
    assert [f["property"] for f in found["findings"]] == [p.name for p in PROPERTIES]
    assert {row["sketch"] for row in found["standing"]} == set(SHIPPED)
    assert all(row["error"] <= row["claimed"] for row in found["standing"])
    assert (found["seed"], found["shape"], found["m"]) == (0, [8, 6], 16)
    assert any("CUDA" in what for what in found["not_tested"]) or "cuda" in str(found)
    rare = "faults of rare draws, a heavy tail say: none of 100 draws has one of 1 in 5000 with probability 0.98"
    assert found["not_tested"][0].startswith(rare)  # (1 - 1/5000)^100: no claim enters


def test_what_does_not_apply_is_shown_and_not_counted():
    said = call(f"{GOOD}:Good", "--draws", ENOUGH, code=0).stdout
    assert "does not apply" in said
    assert "there is no enumerate_all" in said
    assert f"{len(PROPERTIES) - 2} of {len(PROPERTIES) - 2} properties hold" in said
    findings = json.loads(call("gaussian", "--draws", ENOUGH, "--json", code=0).stdout)["findings"]
    assert [f["property"] for f in findings if f["verdict"] == "does not apply"] == ["twin", "listing"]


def test_a_sketch_that_fails_is_exit_code_1_and_says_what_to_do():
    said = call(f"{BROKEN}:WrongBytes", code=1).stdout
    assert "FAILS" in said
    assert "nbytes is 0, its tables have 768" in said
    assert "what to do" in said
    assert "rests on protocol" in said
    assert f"0 of {len(PROPERTIES)} properties hold" in said


def test_what_is_not_decided_is_exit_code_1_and_names_the_claim():
    said = " ".join(call(f"{BROKEN}:ThreefoldBehindAClaim", "--draws", ENOUGH, code=1).stdout.split())
    assert "NOT DECIDED" in said
    assert "scale is not decided" in said
    assert "the claimed variance is 1e+09" in said
    assert "claim no more in variance_factor()" in said
    assert "rests on scale" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "sketch must be one of"),
        ([f"{GOOD}:Goood"], "did you mean 'Good'"),
        (["tensor", "--shape", "8x6"], "--shape must be rows,columns"),
        (["tensor", "--m", "0"], "m must be at least 1, got 0"),
        (["tensor", "--m", "48"], "shape must have more than m=48 entries, got (8, 6)"),
        (["tensor", "--seed", "-1"], "seed must be from 0 to 1999, got -1"),
        (["tensor", "--draws", "5"], "draws must be from 100 to 100000, got 5"),
    ],
)
def test_bad_input_is_exit_code_2_and_a_line(arguments, message):
    assert message in call(*arguments, code=2).stderr


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_can_be_read_at_any_width(width, capsys):
    rows = [Standing(name, 128, 3_145_728, 0.1, 0.2, 1e-3, 1.0) for name in SHIPPED]
    report = replace(validate(broken_sketches.WrongSize), standing=rows)
    show_report(Console(width=width, highlight=False), report)
    said = capsys.readouterr().out
    assert all(len(line) <= width for line in said.splitlines())
    for p in PROPERTIES:
        assert p.name in said
    assert "…" not in said
    assert "probability at most" in said
