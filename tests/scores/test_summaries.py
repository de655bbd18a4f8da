"""Summaries of trajectories: in their range, indifferent to scale, NaN where there is nothing to summarise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from sdi.scores.summaries import (
    cancellation,
    centre_of_mass,
    cross_mass,
    energy,
    group_share,
    horizon,
    late_mass,
    self_influence,
)

exact = settings(deadline=None, derandomize=True, database=None, max_examples=200)

values = st.one_of(st.just(0.0), st.floats(1e-6, 1e6), st.floats(5e-324, 1e300))
trajectories = st.lists(values, min_size=1, max_size=12).map(np.array)
masses = trajectories.filter(lambda e: e.max() > 0)
signed = st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=12).map(np.array)


@pytest.mark.slow
@exact
@given(masses, st.data())
def test_late_mass_is_a_share(e, data):
    first = data.draw(st.one_of(st.none(), st.integers(1, len(e))))
    assert 0 <= late_mass(e, first) <= 1


@pytest.mark.slow
@exact
@given(st.lists(st.integers(0, 10), min_size=1, max_size=12).filter(any), st.data())
def test_late_mass_is_the_sum_from_a_step_on_over_the_whole(e, data):
    first = data.draw(st.integers(1, len(e)))
    assert late_mass(np.array(e), first) == pytest.approx(sum(e[first - 1 :]) / sum(e), rel=1e-14, abs=1e-15)
    assert late_mass(np.array(e)) == late_mass(np.array(e), len(e) // 2 + 1)


@pytest.mark.slow
@exact
@given(masses)
def test_the_centre_lies_within_the_steps(e):
    assert 1 <= centre_of_mass(e) <= len(e)


@pytest.mark.parametrize("tau", [2, 3, 5, 8, 12, 32])
def test_rounding_does_not_carry_a_share_or_a_centre_out_of_its_range(tau):
    """Trajectories at the edges, where unclipped sums were seen to leave the range by an ulp or two."""
    rng = np.random.default_rng(0)
    e = rng.random((4, 5000, tau)) * 10.0 ** rng.integers(-17, 1, size=(4, 5000, tau))
    e[1, :, : tau // 2] = 0
    e[2:] = rng.random((2, 5000, tau)) * 1e-16
    e[2, :, 0] = e[3, :, -1] = 1
    for share in (late_mass(e), late_mass(e, first=1)):
        assert share.min() >= 0
        assert share.max() <= 1
    assert centre_of_mass(e).min() >= 1
    assert centre_of_mass(e).max() <= tau


@pytest.mark.slow
@exact
@given(masses, st.floats(1e-9, 1), st.floats(1e-9, 1))
def test_the_horizon_is_a_step_and_grows_with_the_level(e, a, b):
    low, high = horizon(e, min(a, b)), horizon(e, max(a, b))
    assert low in range(1, len(e) + 1)
    assert high in range(1, len(e) + 1)
    assert low <= high
    assert e[int(low) - 1] > 0  # a step at which nothing acts reaches no level


@pytest.mark.slow
@exact
@given(st.lists(st.integers(0, 20), min_size=1, max_size=12).filter(any), st.integers(1, 20))
def test_the_horizon_is_the_first_step_that_reaches_the_level_in_integers(e, twentieths):
    cumulated = np.cumsum(e)
    wanted = next(t for t, c in enumerate(cumulated, 1) if 20 * int(c) >= twentieths * int(cumulated[-1]))
    assert horizon(np.array(e), twentieths / 20) == wanted


@pytest.mark.slow
@exact
@given(st.lists(st.floats(-1e3, 1e3).map(lambda x: round(x, 3)), min_size=1, max_size=12))
@example([1.0, 2.0, 4.0, -3.0])
def test_no_summary_depends_on_the_scale(trajectory):
    x = np.array(trajectory)
    assume(x.any())
    for scale in (1e-300, 1e-150, 1e150, 1e300):
        for summary in (late_mass, centre_of_mass):
            assert summary(np.abs(x) * scale) == pytest.approx(summary(np.abs(x)), rel=1e-12, abs=1e-15)
        assert cancellation(x * scale) == pytest.approx(cancellation(x), rel=1e-12, abs=1e-12)
        assert horizon(np.abs(x) * scale) == horizon(np.abs(x))


def test_a_trajectory_of_the_smallest_numbers_has_a_timing():
    e = np.array([5e-324, 0.0, 5e-324, 1e-323])
    assert late_mass(e) == 0.75
    assert centre_of_mass(e) == 3.0
    assert horizon(e, 0.5) == 3


@pytest.mark.slow
@exact
@given(signed)
def test_cancellation_is_a_share_and_nothing_cancels_among_equal_signs(x):
    assume(x.any())
    assert 0 <= cancellation(x) <= 1
    assert cancellation(np.abs(x)) == cancellation(-np.abs(x)) == 0
    assert cancellation(np.concatenate([x, -x[::-1]])) >= 1 - 1e-12


def test_a_trajectory_without_mass_has_no_timing():
    e = np.array([[0.0, 0.0], [1.0, 3.0]])
    for summary, wanted in ((late_mass, 0.75), (centre_of_mass, 1.75), (horizon, 2), (cancellation, 0)):
        got = summary(e)
        assert np.isnan(got[0])
        assert got[1] == wanted


@pytest.mark.parametrize(
    ("e", "late", "centre", "ninety"),
    [
        ([1], 1, 1, 1),
        ([1, 0], 0, 1, 1),
        ([0, 1], 1, 2, 2),
        ([1, 1], 0.5, 1.5, 2),
        ([1, 2, 1], 0.75, 2, 3),  # of three steps, 2 and 3 are the second half
        ([9, 1], 0.1, 1.1, 1),
        ([0, 0, 0, 8], 1, 4, 4),
        ([0.1] * 10, 0.5, 5.5, 9),
    ],
)
def test_small_examples(e, late, centre, ninety):
    assert late_mass(np.array(e)) == pytest.approx(late, rel=1e-14)
    assert centre_of_mass(np.array(e)) == pytest.approx(centre, rel=1e-14)
    assert horizon(np.array(e)) == ninety


def test_energy_sums_absolute_influence_over_training_examples():
    scores = np.array([[[1, -2], [0, 3]], [[-1, 5], [4, 0]]])  # (n, q, tau)
    assert energy(scores).tolist() == [[2, 7], [4, 3]]


@pytest.mark.slow
@exact
@given(st.lists(st.lists(st.floats(-1e300, 1e300), min_size=3, max_size=3), min_size=1, max_size=6), st.data())
def test_the_shares_of_a_group_and_of_the_others_make_one(tracin, data):
    group = np.array(data.draw(st.lists(st.booleans(), min_size=len(tracin), max_size=len(tracin))))
    shares, others = group_share(np.array(tracin), group), group_share(np.array(tracin), ~group)
    dead = ~np.any(tracin, axis=0)
    assert np.array_equal(np.isnan(shares), dead)
    assert ((shares >= 0) & (shares <= 1))[~dead].all()
    np.testing.assert_allclose((shares + others)[~dead], 1, rtol=1e-14)


def test_self_influence_and_cross_mass_are_sums_over_the_last_axis():
    assert self_influence(np.array([[3, 4], [0, 1]])).tolist() == [25, 1]
    assert cross_mass(np.array([[1, -2], [0, 0]])).tolist() == [3, 0]


@exact
@given(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5))
def test_leading_axes_are_summarised_one_by_one(a, b, tau):
    x = np.random.default_rng(tau).integers(0, 9, size=(a, b, tau)).astype(float)
    for summary in (late_mass, centre_of_mass, horizon, cancellation):
        got = summary(x)
        assert got.shape == (a, b)
        one_by_one = np.array([[float(summary(x[i, j])) for j in range(b)] for i in range(a)]).reshape(a, b)
        assert np.array_equal(got, one_by_one, equal_nan=True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: late_mass(np.array([1.0, -2.0])), r"energy must not be negative, got -2.0; take energy\(scores\) fir"),
        (lambda: centre_of_mass(np.array([1.0, -2.0])), "energy must not be negative, got -2.0"),
        (lambda: horizon(np.array([1.0, -2.0])), "energy must not be negative, got -2.0"),
        (lambda: late_mass(np.array([1.0, np.nan])), r"energy must be finite, got nan at index \(1,\)"),
        (lambda: horizon(np.array([[1.0], [np.inf]])), r"energy must be finite, got inf at index \(1, 0\)"),
        (lambda: centre_of_mass(np.array([-np.inf])), r"energy must be finite, got -inf at index \(0,\)"),
        (lambda: energy(np.full((1, 1, 2), np.nan)), r"scores must be finite, got nan at index \(0, 0, 0\)"),
        (lambda: cancellation(np.array([np.inf])), r"scores must be finite, got inf at index \(0,\)"),
        (lambda: self_influence(np.array([[np.nan]])), r"g must be finite, got nan at index \(0, 0\)"),
        (lambda: cross_mass(np.array([[np.nan]])), r"tracin must be finite, got nan at index \(0, 0\)"),
        (lambda: group_share(np.ones((3, 2)), np.array([0, 1])), r"True or False .*, got int64 of shape \(2,\) for"),
        (
            lambda: group_share(np.ones((3, 2)), np.ones(2, bool)),
            r"got bool of shape \(2,\) for tracin of shape \(3, 2\)",
        ),
        (
            lambda: energy(np.ones((3, 2, 1)), np.ones(2, bool)),
            r"got bool of shape \(2,\) for scores of shape \(3, 2, 1\)",
        ),
        (lambda: late_mass(np.float64(1)), r"energy must have a step axis, .* got shape \(\)"),
        (lambda: late_mass(np.zeros((2, 0))), r"energy must have a step axis, .* got shape \(2, 0\)"),
        (lambda: horizon(np.zeros(0)), r"energy must have a step axis, .* got shape \(0,\)"),
        (lambda: late_mass(np.ones(4), first=0), "first must be a step from 1 to 4, got 0"),
        (lambda: late_mass(np.ones(4), first=5), "first must be a step from 1 to 4, got 5"),
        (lambda: horizon(np.ones(4), level=0), "level must be above 0 and at most 1, got 0"),
        (lambda: horizon(np.ones(4), level=1.1), "level must be above 0 and at most 1, got 1.1"),
        (lambda: horizon(np.ones(4), level=float("nan")), "level must be above 0 and at most 1, got nan"),
    ],
)
def test_what_has_no_summary_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_rows_of_very_different_sizes_do_not_disturb_each_other():
    e = np.array([[1e300, 1e300], [1e-300, 1e-300]])
    assert np.array_equal(late_mass(e), [0.5, 0.5])
    assert np.array_equal(group_share(e.T, np.array([True, False])), [0.5, 0.5])


def test_no_rows_have_no_summaries():
    none = np.zeros((0, 3))
    assert late_mass(none).shape == late_mass(none, np.zeros(0, dtype=int)).shape == centre_of_mass(none).shape == (0,)
    assert np.isnan(group_share(none, np.zeros(0, dtype=bool))).tolist() == [True, True, True]


@pytest.mark.parametrize(("tracin", "group", "message"), [
    ([[np.nan]], [True], r"tracin must be finite, got nan at index \(0, 0\)"),
    ([[1.0], [1.0]], [1, 0], "group must hold True or False for each training example"),
    ([1.0, 1.0], [True, False], r"tracin must have shape \(n, q\), got \(2,\)"),
    ([[1.0], [1.0]], [True], "group must hold True or False for each training example"),
])  # fmt: skip
def test_what_is_no_group_is_refused(tracin, group, message):
    with pytest.raises(ValueError, match=message):
        group_share(np.array(tracin), np.array(group))


def test_rounding_does_not_carry_the_share_of_a_group_above_one():
    """Sums of all examples, and of all that have influence, are rounded apart."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        tracin = rng.random((40, 1)) * (rng.random((40, 1)) < 0.5)
        assert group_share(tracin, tracin[:, 0] > 0)[0] <= 1


def test_summaries_are_taken_in_double_precision():
    thirds = np.full(3, 1 / 3, dtype=np.float32)
    assert late_mass(thirds, 2).dtype == np.float64
    assert late_mass(thirds, 2) == 2 / 3
    assert energy(np.ones((2, 1, 1), dtype=np.int8) * 100).tolist() == [[200.0]]


def test_sums_are_taken_in_double_precision_whatever_is_given():
    assert cross_mass(np.full((1, 2), 60_000, dtype=np.float16)).tolist() == [120_000]  # over half precision's largest
    assert cross_mass(np.full((1, 2), 2**63 - 1)).tolist() == [2.0**64]  # and over that of whole numbers
