"""Estimates of a variance, each against its definition, written out pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from sdi.sketch.estimate_variance import Pairs, between, half_bound, over_entries, over_frequencies, over_grid


def pairs_of(m: int) -> Pairs:
    rng = np.random.default_rng(m)
    return Pairs.of(rng.normal(size=(3, m)) + 0.5, rng.normal(size=(2, m)) - 0.3)


def by_pairs(pairs: Pairs, one) -> np.ndarray:
    return np.array([[one(a, b) for b in pairs.b] for a in pairs.a])


def near(found: np.ndarray, wanted: np.ndarray) -> bool:
    return found.shape == wanted.shape and bool(np.allclose(found, wanted, rtol=0, atol=1e-12 * np.abs(wanted).max()))


def test_norms_and_products_are_those_of_all_pairs():
    pairs = pairs_of(5)
    assert near(pairs.norms, by_pairs(pairs, lambda a, b: (a @ a) * (b @ b)))
    assert near(pairs.products, by_pairs(pairs, lambda a, b: a @ b))


@pytest.mark.parametrize("m", [5, 6, 7, 8, 9, 16])
def test_over_frequencies_is_the_variance_of_the_products_strictly_between_0_and_half(m):
    def one(a, b):
        products = [(np.fft.fft(a)[w] * np.fft.fft(b)[w].conj()).real for w in range(1, m) if 2 * w < m]
        return 2 / m * np.var(products, ddof=1)

    pairs = pairs_of(m)
    assert near(over_frequencies(pairs), by_pairs(pairs, one))


@pytest.mark.parametrize(("m", "out_of"), [(2, 3), (2, 9), (5, 5), (5, 11)])
def test_over_entries_is_the_variance_of_a_sample_without_replacement(m, out_of):
    pairs = pairs_of(m)
    wanted = by_pairs(pairs, lambda a, b: m * (1 - m / out_of) * np.var(a * b, ddof=1))
    assert near(over_entries(pairs, out_of), wanted)


@pytest.mark.parametrize("drawn", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("k", [(2, 2), (2, 3), (4, 3)])
def test_over_grid_adds_the_variances_of_the_sums_of_rows_and_of_columns(k, drawn):
    def one(a, b):
        products = (a * b).reshape(k)
        of_rows, of_columns = (n * np.var(products.sum(axis=axis), ddof=1) for n, axis in ((k[0], 1), (k[1], 0)))
        return drawn[0] * of_rows + drawn[1] * of_columns

    pairs = pairs_of(k[0] * k[1])
    assert near(over_grid(pairs, k, drawn), by_pairs(pairs, one))


def test_a_side_of_one_line_that_was_not_drawn_adds_nothing():
    pairs = pairs_of(3)
    assert near(over_grid(pairs, (1, 3), (False, True)), by_pairs(pairs, lambda a, b: 3 * np.var(a * b, ddof=1)))


@pytest.mark.parametrize("estimate", [
    *(lambda m=m: over_frequencies(pairs_of(m)) for m in (1, 2, 3, 4)),
    lambda: over_entries(pairs_of(1), 7),
    lambda: over_grid(pairs_of(3), (1, 3), (True, True)),
    lambda: over_grid(pairs_of(3), (3, 1), (True, True)),
])  # fmt: skip
def test_too_few_numbers_for_a_variance_give_infinity(estimate):
    assert np.array_equal(estimate(), np.full((3, 2), np.inf))


def test_a_variance_that_rounds_below_zero_is_zero():
    pairs = Pairs.of(np.full((1, 9), 0.1), np.full((1, 9), 0.7))
    assert over_entries(pairs, 20).min() >= 0


def test_an_estimate_is_kept_between_a_share_of_the_half_bound_and_the_half_bound():
    pairs, factor = pairs_of(6), 0.003  # so that f |a|^2 |b|^2 is below 1
    most = by_pairs(pairs, lambda a, b: factor / 2 * ((a @ a) * (b @ b) + (a @ b) ** 2))
    least = by_pairs(pairs, lambda a, b: (1 + (a @ b) ** 2 / (a @ a) / (b @ b)) / 2) * most
    assert near(half_bound(factor, pairs), most)
    for sample, wanted in ((0 * most, least), (10 * most, most), ((least + most) / 2, (least + most) / 2)):
        assert near(between(factor, pairs, sample), wanted)


def test_a_pair_of_nothing_has_no_variance():
    pairs = Pairs.of(np.zeros((2, 4)), np.ones((3, 4)))
    used = np.full((2, 3), 7.0)  # a reused buffer must not show
    assert np.array_equal(between(0.5, pairs, used), np.zeros((2, 3)))
    assert np.array_equal(between(0.0, pairs, used), np.zeros((2, 3)))
