"""Bounds: the exact variances against every hash there is, and what is built on them.

The enumerations here use fully random tables and the polynomial family as the code evaluates it. The paper's
statements are decided in `proofs_checks/`; this is the contract of the functions.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.errors import SketchMismatch
from sdi.sketch import bounds
from sdi.sketch.hashing import buckets_of, evaluate, signs_of
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.sketch_map import SketchMap

exact = settings(deadline=None, derandomize=True, database=None, max_examples=40)
small = st.integers(-5, 5)


def fractions(x) -> np.ndarray:
    return np.vectorize(lambda k: Fraction(int(k), 3), otypes=[object])(np.asarray(x))


def every_table(d: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Every (h, s) on d indices: fully random tables. Shapes (N, d)."""
    h, s = zip(*product(product(range(m), repeat=d), product((-1, 1), repeat=d)), strict=True)
    return np.array(h), np.array(s)


def every_polynomial(d: int, m: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Every (h, s) of the polynomial family over GF(2^k)."""
    field = range(1 << k)
    h = [buckets_of(evaluate(np.array(c, dtype=np.uint64), d, k), m) for c in product(field, repeat=2)]
    s = [signs_of(evaluate(np.array(c, dtype=np.uint64), d, k)) for c in product(field, repeat=4)]
    return np.repeat(h, len(s), axis=0), np.tile(s, (len(h), 1)).astype(int)


def moments(buckets: np.ndarray, signs: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[Fraction, Fraction]:
    """Mean and variance of <S x, S y> over the rows of tables, all equally likely, in integers."""
    same = buckets[:, :, None] == buckets[:, None, :]
    estimates = ((signs * x)[:, :, None] * (signs * y)[:, None, :] * same).sum(axis=(1, 2))
    mean = Fraction(int(estimates.sum()), len(estimates))
    return mean, Fraction(int((estimates**2).sum()), len(estimates)) - mean**2


def tensor_tables(rows, cols, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of a row's table and a column's, as tables on the flattened matrix."""
    (h, s), (h2, s2) = rows, cols
    H = (h[:, None, :, None] + h2[None, :, None, :]) % m
    S = s[:, None, :, None] * s2[None, :, None, :]
    return H.reshape(len(h) * len(h2), -1), S.reshape(len(h) * len(h2), -1)


def integers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(-4, 5, size=shape)


@pytest.mark.parametrize(("d", "m"), [(1, 1), (1, 3), (2, 1), (2, 2), (2, 3), (3, 2), (3, 3), (4, 2)])
def test_the_variance_of_count_sketch_is_that_of_all_tables(d, m):
    for seed in range(3):
        x, y = integers(seed, 2, d)
        mean, variance = moments(*every_table(d, m), x, y)
        assert mean == x @ y
        got = bounds.count_sketch_variance(fractions(x), fractions(y), m)
        assert isinstance(got, Fraction)
        assert got == variance / 81


@pytest.mark.parametrize("m", [1, 2, 4])
def test_the_variance_of_count_sketch_is_that_of_all_polynomials(m):
    x, y = integers(m, 2, 4)
    mean, variance = moments(*every_polynomial(4, m, k=2), x, y)
    assert mean == x @ y
    assert bounds.count_sketch_variance(fractions(x), fractions(y), m) == variance / 81


@pytest.mark.parametrize(
    ("d", "d2", "m"), [(1, 1, 2), (1, 3, 2), (2, 2, 1), (2, 2, 2), (2, 2, 3), (2, 2, 4), (2, 3, 2), (3, 2, 2)]
)
def test_the_variance_of_tensor_sketch_is_that_of_all_tables(d, d2, m):
    tables = tensor_tables(every_table(d, m), every_table(d2, m), m)
    for seed in range(3):
        X, Y = integers(seed, 2, d, d2)
        mean, variance = moments(*tables, X.ravel(), Y.ravel())
        assert mean == (X * Y).sum()
        got = bounds.tensor_sketch_variance(fractions(X), fractions(Y), m)
        assert isinstance(got, Fraction)
        assert got == variance / 81


def test_the_variance_of_tensor_sketch_is_that_of_all_polynomials():
    one_side = every_polynomial(2, 2, k=1)
    for seed in range(3):
        X, Y = integers(seed, 2, 2, 2)
        mean, variance = moments(*tensor_tables(one_side, one_side, 2), X.ravel(), Y.ravel())
        assert mean == (X * Y).sum()
        assert bounds.tensor_sketch_variance(fractions(X), fractions(Y), 2) == variance / 81


@pytest.mark.parametrize("m", range(1, 13))
def test_coincidence_counts_the_solutions(m):
    solutions = [(a, b) for a in range(m) for b in range(m) if (a + b) % m == (a - b) % m == 0]
    assert bounds.coincidence(m) == len(solutions)


@pytest.mark.slow
@exact
@given(st.sampled_from([(), (1,), (3,), (2, 3)]), st.sampled_from([(), (3,), (2, 1)]), st.integers(1, 5))
def test_variances_broadcast_over_leading_axes(lead_x, lead_y, m):
    lead = np.broadcast_shapes(lead_x, lead_y)
    for variance, shape in ((bounds.count_sketch_variance, (4,)), (bounds.tensor_sketch_variance, (2, 3))):
        x, y = fractions(integers(m, *lead_x, *shape)), fractions(integers(m + 1, *lead_y, *shape))
        got = np.asarray(variance(x, y, m))
        assert got.shape == lead
        x, y = np.broadcast_to(x, (*lead, *shape)), np.broadcast_to(y, (*lead, *shape))
        for at in np.ndindex(*lead):
            assert got[at] == variance(x[at], y[at], m)


@exact
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 9), st.data())
def test_the_worst_case_dominates_the_exact_variance(d, d2, m, data):
    X, Y = (np.array(data.draw(st.lists(small, min_size=d * d2, max_size=d * d2))) for _ in range(2))
    norms = Fraction(int((X * X).sum() * (Y * Y).sum()))
    x, y = 3 * fractions(X), 3 * fractions(Y)
    count = bounds.count_sketch_variance(x, y, m)
    tensor = bounds.tensor_sketch_variance(x.reshape(d, d2), y.reshape(d, d2), m)
    assert 0 <= count <= Fraction(2, m) * norms
    assert 0 <= tensor <= (Fraction(2 * bounds.coincidence(m), m * m) + Fraction(6, m)) * norms
    assert bounds.worst_case(CountSketch.draw((4,), m, name="w")) == 2 / m
    assert bounds.worst_case(TensorSketch.draw((2, 2), m, name="w")) == bounds.tensor_sketch_factor(m)
    assert bounds.worst_case(Keep((2,))) == 0


@pytest.mark.parametrize("m", [1, 2, 3, 8, 9])
def test_the_worst_case_is_approached_so_no_smaller_factor_would_do(m):
    ones = np.ones((400, 400))
    norms = ones.sum() ** 2
    assert bounds.tensor_sketch_variance(ones, ones, m) > 0.98 * bounds.tensor_sketch_factor(m) * norms
    assert bounds.count_sketch_variance(ones[0], ones[0], m) > 0.98 * (2 / m) * ones[0].sum() ** 2


def norms_of(sketch: SketchMap, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.5, 2, size=3) for name in sketch.sketches}


SHAPES = {"q": (4, 4), "k": (4, 4), "v": (3, 5), "norm": (20,), "bias": (2,)}


def test_independent_sketches_add_their_variances():
    sketch = SketchMap.draw(SHAPES, m=8)
    x, y = norms_of(sketch, 0), norms_of(sketch, 1)
    factor = dict.fromkeys("qkv", bounds.tensor_sketch_factor(8)) | {"norm": 2 / 8, "bias": 0.0}
    wanted = sum(factor[name] * x[name] ** 2 * y[name] ** 2 for name in SHAPES)
    np.testing.assert_allclose(bounds.concatenation_bound(sketch, x, y), wanted, rtol=1e-14)


def test_kept_parameters_add_nothing():
    sketch = SketchMap.keep(SHAPES)
    assert not bounds.concatenation_bound(sketch, norms_of(sketch, 0), norms_of(sketch, 1)).any()


@exact
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(-9, 9)), min_size=1, max_size=4))
def test_checkpoints_with_one_sketch_add_their_standard_deviations(terms):
    deviations, eta = np.array(terms).T
    wanted = sum(abs(e) * d for d, e in terms) ** 2
    assert bounds.checkpoint_bound(deviations**2, eta) == wanted
    over_pairs = np.broadcast_to((deviations**2)[:, None, None], (len(terms), 2, 3))
    assert np.array_equal(bounds.checkpoint_bound(over_pairs, eta), np.full((2, 3), wanted))


ERRORS = [*np.geomspace(0.02, 10, 300), 1 / 8, 0.5, 1.0, 2.0, sqrt(8), 2 * sqrt(2), 100.0]


def test_smallest_m_is_what_a_linear_search_finds():
    factors = np.array([bounds.tensor_sketch_factor(m) for m in range(1, 1 << 15)])
    powers = [1 << i for i in range(15)]
    for error in ERRORS:
        good = factors <= error**2
        assert bounds.smallest_m(float(error)) == 1 + int(good.argmax())
        assert bounds.smallest_m(float(error), power_of_two=True) == next(m for m in powers if good[m - 1])


@pytest.mark.parametrize("error", [1e-3, 1e-4, 3.1e-5, 1e-5, 7.1e-6, *np.geomspace(1e-5, 1e-4, 40)])
def test_the_smallest_m_of_a_small_error_is_found_at_once(error):
    """By exact fractions: it is good enough, and the three before it are not."""
    m, target = bounds.smallest_m(float(error)), Fraction(float(error) ** 2)
    good = [Fraction(2 * bounds.coincidence(k), k * k) + Fraction(6, k) <= target for k in (m, m - 1, m - 2, m - 3)]
    assert good == [True, False, False, False]


def test_the_bound_over_checkpoints_is_computed_in_double_precision():
    narrow, two = np.array([2.0, 0.1], dtype=np.float32), np.array([3.0, 0.3], dtype=np.float32)
    wanted = sum(float(e) * sqrt(float(v)) for v, e in zip(narrow, two, strict=True)) ** 2
    for variances, eta in ((narrow, two), (narrow.tolist(), two), (narrow, two.tolist())):
        assert abs(float(bounds.checkpoint_bound(variances, eta)) - wanted) <= 1e-14 * wanted


def test_variances_of_stacks_are_stacks_of_variances():
    rng = np.random.default_rng(0)
    x, y, X, Y = (rng.integers(-5, 5, size=size) for size in ((2, 3, 4), (2, 3, 4), (2, 3, 4, 5), (2, 3, 4, 5)))
    for m in (2, 3):
        vectors, matrices = bounds.count_sketch_variance(x, y, m), bounds.tensor_sketch_variance(X, Y, m)
        assert vectors.shape == matrices.shape == (2, 3)
        for i, j in np.ndindex(2, 3):
            assert vectors[i, j] == bounds.count_sketch_variance(x[i, j], y[i, j], m)
            assert matrices[i, j] == bounds.tensor_sketch_variance(X[i, j], Y[i, j], m)


def test_no_checkpoints_have_no_variance():
    assert np.array_equal(bounds.checkpoint_bound(np.zeros((0, 3)), np.zeros(0)), np.zeros(3))


def test_smallest_m_steps_past_even_numbers_where_an_odd_one_comes_earlier():
    """At odd m the first term is half as large, so the factor is not monotone in m."""
    error = sqrt(bounds.tensor_sketch_factor(5)) * (1 + 1e-12)
    assert bounds.tensor_sketch_factor(6) < bounds.tensor_sketch_factor(5)
    assert bounds.smallest_m(error) == 5
    assert bounds.tensor_sketch_factor(1) > bounds.tensor_sketch_factor(2)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: bounds.smallest_m(0), ValueError, "relative_error must be above 0 and finite, got 0"),
        (lambda: bounds.smallest_m(-1.0), ValueError, "relative_error must be above 0 and finite, got -1.0"),
        (lambda: bounds.smallest_m(float("nan")), ValueError, "relative_error must be above 0 and finite, got nan"),
        (lambda: bounds.smallest_m(float("inf")), ValueError, "relative_error must be above 0 and finite, got inf"),
        (
            lambda: bounds.count_sketch_variance(np.ones(2), np.ones(3), 4),
            SketchMismatch,
            r"the two must have one shape and at least 1 axes, got \(2,\) and \(3,\)",
        ),
        (
            lambda: bounds.tensor_sketch_variance(np.ones((2, 3)), np.ones((3, 2)), 4),
            SketchMismatch,
            r"the two must have one shape and at least 2 axes, got \(2, 3\) and \(3, 2\)",
        ),
        (lambda: bounds.tensor_sketch_variance(np.ones(3), np.ones(3), 4), SketchMismatch, "at least 2 axes"),
        (lambda: bounds.tensor_sketch_variance(np.ones((2, 3)), np.ones(3), 4), SketchMismatch, "at least 2 axes"),
        (lambda: bounds.count_sketch_variance(np.ones(()), np.ones(()), 4), SketchMismatch, "at least 1 axes"),
        (
            lambda: bounds.concatenation_bound(SketchMap.keep({"a": (1,), "b": (1,)}), {"a": 1}, {"a": 1, "c": 1}),
            SketchMismatch,
            r"norms must be given for the sketch's parameters \['a', 'b'\]; on one side only: \['b', 'c'\]",
        ),
        (
            lambda: bounds.checkpoint_bound(np.ones(2), np.ones(3)),
            ValueError,
            r"eta must hold one weight for each of the 2 checkpoints, got shape \(3,\)",
        ),
        (lambda: bounds.checkpoint_bound(np.ones(1), np.ones((1, 1))), ValueError, r"got shape \(1, 1\)"),
        (
            lambda: bounds.checkpoint_bound(np.array([1.0, -2.0]), np.ones(2)),
            ValueError,
            "variances must not be negative, got -2.0",
        ),
    ],
)
def test_what_has_no_bound_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()
