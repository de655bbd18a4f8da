"""The statistical tests of `sdi validate` keep to their error rates, have the power they state, and judge new draws."""

from __future__ import annotations

import numpy as np
import pytest
from good_sketch import Good
from scipy.stats import binom

from sdi.sketch.shipped.count_and_tensor import CountSketch
from sdi.validate import Subject
from sdi.validate import trial as trials
from sdi.validate.adversary import most_varying, variance
from sdi.validate.enumeration import enumerations
from sdi.validate.pairs import KINDS, pair
from sdi.validate.properties.variance import within_bound
from sdi.validate.sketch_under_test import SEEDS
from sdi.validate.statistics.frequency_test import as_often_as_listed
from sdi.validate.statistics.mean_test import COARSEST, POWER, draws_to_see, mean_is
from sdi.validate.statistics.sign_test import products_needed, signs_are_fair
from sdi.validate.statistics.variance_test import mean_is_at_most, variance_is_at_most

pytestmark = pytest.mark.slow

ALPHA, CHANCE = 0.05, 1e-6  # the rate that is tested, and the probability that its test fails by chance


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
    at_random = [i for i in t.fresh if t.pairs[i].kind == "random"]
    assert at_random
    assert not any(set(t.seen[:, i]) & set(t.fresh[i]) for i in at_random)
    assert {*t.biased, *t.varying} == set(t.fresh)


@pytest.mark.usefixtures("few_other_sizes")
def test_a_parameter_too_large_for_a_search_is_said_to_be():
    subject = Subject(Good, "<Good>", (33, 32), 8, draws=100)
    assert not trials.trial(subject, (33, 32), 8).searched
    assert "(33, 32) is too large for a search" in within_bound(subject).seen


def test_the_adversary_finds_no_less_than_thousands_of_random_pairs():
    subject = Subject(CountSketch, "<CountSketch>", (3,), 2)
    every, _ = enumerations(subject)
    rng = np.random.default_rng(0)
    found = most_varying(every.S, every.weights, rng.standard_normal((4, 3)), (3,))
    worst = max(variance(every.S, every.weights, p) for p in found)
    tried = [pair("random", *rng.standard_normal((2, 3))) for _ in range(3000)]
    assert worst >= max(variance(every.S, every.weights, p) for p in tried)
    assert worst == pytest.approx(2 / 3, rel=1e-3)  # 2 / m (1 - 1 / d) at equal entries
