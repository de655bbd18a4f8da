"""Scores: each sums to the next, and arrays and Features agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.errors import SketchMismatch
from sdi.scores import products as scores
from sdi.sketch.sketch_map import Block
from sdi.store.features import Features

exact = settings(deadline=None, derandomize=True, database=None, max_examples=40)
EPS = np.finfo(np.float64).eps


either = st.booleans()


@st.composite
def pairs(draw, outside=either):
    """(train, query) of one width, with ragged taus, wide ranges and cancellation."""
    widths = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    stops = np.cumsum(widths).tolist()
    blocks = tuple(Block(f"p{i}", (w,), stop - w, stop) for i, (w, stop) in enumerate(zip(widths, stops, strict=True)))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))

    def one() -> Features:
        n, steps = draw(st.integers(1, 4)), draw(st.integers(1, 5))
        tau = rng.integers(1, steps + 1, size=n)
        values = rng.standard_normal((n, steps, stops[-1])) * 10.0 ** rng.integers(-8, 9, size=(n, steps, 1))
        values *= (np.arange(steps) < tau[:, None])[..., None]
        extra = rng.standard_normal((n, stops[-1])) if draw(outside) else None
        return Features(values, tau, blocks, "3f2a", outside=extra)

    return one(), one()


def absolute(f: Features) -> Features:
    return Features(
        np.abs(f.values), f.tau, f.blocks, f.sketch, outside=None if f.outside is None else np.abs(f.outside)
    )


def close(got, wanted, train: Features, query: Features, verb) -> None:
    """Equal to rounding: tolerance eps * |x|^T |y| times the number of terms, because inner products cancel."""
    terms = train.values[0].size + query.values[0].size + 2
    scale = verb(absolute(train), absolute(query))
    assert np.shape(got) == np.shape(wanted) == np.shape(scale)
    assert (np.abs(got - wanted) <= terms * EPS * scale).all()


@pytest.mark.slow
@exact
@given(pairs())
def test_every_score_is_its_definition(pair):
    train, query = pair
    n, q = len(train.ids), len(query.ids)
    tracin, sdi = scores.tracin(train, query), scores.sdi(train, query)
    sdi_train, matrix = scores.sdi_train(train, query), scores.step_matrix(train, query)
    tau_train, tau_query = train.phi.shape[1], query.phi.shape[1]
    want = {
        "tracin": np.zeros((n, q)),
        "sdi": np.zeros((n, q, tau_query)),
        "sdi_train": np.zeros((n, q, tau_train)),
        "matrix": np.zeros((n, q, tau_train, tau_query)),
    }
    for i in range(n):
        for j in range(q):
            want["tracin"][i, j] = (train.g[i] * query.g[j]).sum()
            for t in range(tau_query):
                want["sdi"][i, j, t] = (train.g[i] * query.phi[j, t]).sum()
            for s in range(tau_train):
                want["sdi_train"][i, j, s] = (train.phi[i, s] * query.g[j]).sum()
                for t in range(tau_query):
                    want["matrix"][i, j, s, t] = (train.phi[i, s] * query.phi[j, t]).sum()
    close(tracin, want["tracin"], train, query, scores.tracin)
    close(sdi, want["sdi"], train, query, scores.sdi)
    close(sdi_train, want["sdi_train"], train, query, scores.sdi_train)
    close(matrix, want["matrix"], train, query, scores.step_matrix)


@exact
@given(pairs(outside=st.just(False)))
def test_without_outside_each_score_sums_to_the_next(pair):
    train, query = pair
    matrix = scores.step_matrix(train, query)
    close(matrix.sum(axis=2), scores.sdi(train, query), train, query, scores.sdi)
    close(matrix.sum(axis=3), scores.sdi_train(train, query), train, query, scores.sdi_train)
    close(scores.sdi(train, query).sum(-1), scores.tracin(train, query), train, query, scores.tracin)
    close(scores.sdi_train(train, query).sum(-1), scores.tracin(train, query), train, query, scores.tracin)
    assert not scores.outside(train, query).any()


@exact
@given(pairs(outside=st.just(True)))
def test_with_outside_each_score_and_what_entered_outside_sum_to_the_next(pair):
    train, query = pair
    matrix, sdi = scores.step_matrix(train, query), scores.sdi(train, query)
    sdi_train, tracin = scores.sdi_train(train, query), scores.tracin(train, query)
    close(matrix.sum(2) + scores.sdi(train.outside, query), sdi, train, query, scores.sdi)
    close(matrix.sum(3) + scores.sdi_train(train, query.outside), sdi_train, train, query, scores.sdi_train)
    close(sdi.sum(-1) + scores.outside(train, query), tracin, train, query, scores.tracin)
    close(sdi_train.sum(-1) + scores.tracin(train.outside, query), tracin, train, query, scores.tracin)


@exact
@given(pairs())
def test_the_parts_by_parameter_sum_to_sdi(pair):
    train, query = pair
    parts = scores.by_parameter(train, query)
    assert list(parts) == [block.name for block in query.blocks]
    close(sum(parts.values()), scores.sdi(train, query), train, query, scores.sdi)
    for block in query.blocks:
        columns = slice(block.start, block.stop)
        assert np.array_equal(parts[block.name], scores.sdi(train.g[:, columns], query.phi[..., columns]))


@exact
@given(pairs())
def test_arrays_and_features_agree(pair):
    train, query = pair
    for verb, x, y in (
        (scores.tracin, train.g, query.g),
        (scores.sdi, train.g, query.phi),
        (scores.sdi_train, train.phi, query.g),
        (scores.step_matrix, train.phi, query.phi),
    ):
        whole = verb(train, query)
        assert np.array_equal(whole, verb(x, y))
        assert np.array_equal(whole, verb(train, y))
        assert np.array_equal(whole, verb(x, query))


def test_features_summed_over_steps_serve_as_g_and_not_as_phi():
    blocks = (Block("w", (2,), 0, 2),)
    summed = Features(np.array([[1.0, 2.0]]), [3], blocks, "3f2a", outside=np.array([[1.0, 0.0]]))
    steps = Features(np.ones((1, 3, 2)), [3], blocks, "3f2a")
    assert scores.sdi(summed, steps).tolist() == [[[3.0, 3.0, 3.0]]]
    assert scores.tracin(summed, steps).tolist() == [[9.0]]
    assert scores.outside(steps, summed).tolist() == [[3.0]]
    for verb, train, query in (
        (scores.sdi, steps, summed),
        (scores.sdi_train, summed, steps),
        (scores.step_matrix, summed, steps),
        (scores.by_parameter, steps, summed),
    ):
        with pytest.raises(ValueError, match="phi is gone; featurize with steps=True"):
            verb(train, query)


VERBS = [scores.tracin, scores.sdi, scores.sdi_train, scores.step_matrix, scores.by_parameter, scores.outside]


@pytest.mark.parametrize("verb", VERBS)
def test_features_that_were_not_made_alike_are_not_multiplied(verb):
    blocks = (Block("w", (2,), 0, 2),)
    train = Features(np.ones((1, 3, 2)), [3], blocks, "3f2a")
    with pytest.raises(SketchMismatch, match="train features use sketch 3f2a, query features 91c0; featurize both"):
        verb(train, Features(np.ones((1, 3, 2)), [3], blocks, "91c0"))
    with pytest.raises(SketchMismatch, match="train and query features are of different parameters"):
        verb(train, Features(np.ones((1, 3, 2)), [3], (Block("v", (2,), 0, 2),), "3f2a"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scores.tracin(np.ones((2, 5)), np.ones((2, 4))), "train and query must have one width D, got 5 and 4"),
        (lambda: scores.sdi(np.ones((2, 5)), np.ones((2, 3, 4))), "one width D, got 5 and 4"),
        (lambda: scores.sdi_train(np.ones((2, 3, 5)), np.ones((2, 4))), "one width D, got 5 and 4"),
        (lambda: scores.step_matrix(np.ones((2, 3, 5)), np.ones((2, 3, 4))), "one width D, got 5 and 4"),
        (
            lambda: scores.tracin(np.ones((2, 3, 5)), np.ones((2, 5))),
            r"a gradient g must have axes \(n, D\), got shape \(2, 3, 5\); sum phi over its steps first",
        ),
        (lambda: scores.tracin(np.ones(5), np.ones(5)), r"a gradient g must have axes \(n, D\), got shape \(5,\)"),
        (
            lambda: scores.sdi(np.ones((2, 5)), np.ones((2, 5))),
            r"step gradients phi must have axes \(n, tau, D\), got shape \(2, 5\)",
        ),
        (lambda: scores.sdi_train(np.ones((2, 5)), np.ones((2, 5))), r"phi must have axes \(n, tau, D\)"),
        (lambda: scores.step_matrix(np.ones((2, 3, 5)), np.ones((2, 5))), r"phi must have axes \(n, tau, D\)"),
        (lambda: scores.over_checkpoints([], []), "eta must hold one weight for each of the 0 checkpoints, got 0"),
        (lambda: scores.over_checkpoints([[1.0]], [1, 2]), "eta must hold one weight for each of the 1 .* got 2"),
        (lambda: scores.over_checkpoints([[1.0]], [np.nan]), r"eta must be finite, got \[nan\]"),
        (
            lambda: scores.over_checkpoints([np.ones((2, 3)), np.ones((2, 4))], [1, 1]),
            r"scores of all checkpoints must have one shape, got \[\(2, 3\), \(2, 4\)\]",
        ),
    ],
)
def test_wrong_widths_axes_and_weights_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@exact
@given(st.lists(st.integers(-9, 9), min_size=1, max_size=4), st.sampled_from([(2,), (2, 3), (2, 3, 4)]))
def test_checkpoints_add_up_with_their_weights(eta, shape):
    each = np.random.default_rng(len(eta)).integers(-99, 100, size=(len(eta), *shape))
    wanted = np.zeros(shape)
    for weight, one in zip(eta, each, strict=True):
        wanted += weight * one
    assert np.array_equal(scores.over_checkpoints(list(each), eta), wanted)


def test_scores_of_no_examples_are_empty():
    assert scores.tracin(np.ones((0, 5)), np.ones((2, 5))).shape == (0, 2)
    assert scores.sdi(np.ones((2, 5)), np.ones((0, 3, 5))).shape == (2, 0, 3)
    assert scores.step_matrix(np.ones((0, 4, 5)), np.ones((2, 3, 5))).shape == (0, 2, 4, 3)


def test_features_and_arrays_may_be_multiplied_if_they_have_one_width():
    blocks = (Block("p", (3,), 0, 3),)
    made = Features(np.arange(12.0).reshape(2, 2, 3), np.array([2, 2]), blocks, "3f2a")
    array = np.arange(6.0).reshape(2, 3)
    assert np.array_equal(scores.tracin(made, array), made.g @ array.T)
    assert np.array_equal(scores.tracin(array, made), array @ made.g.T)
    for pair in ((made, np.ones((2, 4))), (np.ones((2, 4)), made)):
        with pytest.raises(ValueError, match="train and query must have one width D, got"):
            scores.tracin(*pair)


def test_checkpoints_are_weighed_in_double_precision():
    eta = np.array([0.1, 0.3], dtype=np.float32)
    found = scores.over_checkpoints([np.float32([3.0]), np.float32([7.0])], eta)
    assert found.dtype == np.float64
    assert abs(found[0] - (3 * float(eta[0]) + 7 * float(eta[1]))) < 1e-15
