"""Features: the whole gradient, the steps, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.errors import CoverageError, NonFiniteError, SketchMismatch
from sdi.sketch.sketch_map import Block
from sdi.store.features import Features
from sdi.testing import taus

exact = settings(deadline=None, derandomize=True, database=None, max_examples=40)
BLOCKS = (Block("core.w", (2, 2), 0, 3), Block("core.b", (2,), 3, 5))


def features(n=2, steps=3, tau=None, **changes) -> Features:
    """Integers from 1 on, so that every sum is exact; padding zero."""
    tau = np.full(n, steps) if tau is None else np.asarray(tau)
    values = np.arange(1.0, n * steps * 5 + 1).reshape(n, steps, 5)
    values *= (np.arange(steps) < tau[:, None])[..., None]
    given_ = {"values": values, "tau": tau, "blocks": BLOCKS, "sketch": "3f2a (m=3, seed=0, table)", **changes}
    return Features(**given_)


@pytest.mark.slow
@exact
@given(st.integers(0, 4), st.integers(1, 4), st.booleans(), st.data())
def test_g_is_the_sum_of_the_steps_and_of_what_enters_outside(n, steps, has_outside, data):
    tau = data.draw(taus(n, steps))
    outside = np.arange(n * 5.0).reshape(n, 5) if has_outside else None
    f = features(n, steps, tau, outside=outside)
    by_hand = np.zeros((n, 5))
    for i in range(n):
        for t in range(tau[i]):
            by_hand[i] += f.values[i, t]
        by_hand[i] += outside[i] if has_outside else 0
    assert np.array_equal(f.g, by_hand)
    assert f.has_steps
    assert f.phi is f.values


def test_features_summed_over_steps_are_g_as_they_stand_and_have_no_phi():
    g = np.arange(10.0).reshape(2, 5)
    f = features(values=g, outside=np.ones((2, 5)))
    assert not f.has_steps
    assert f.g is g
    with pytest.raises(ValueError, match=r"summed over steps \(steps=False\), so phi is gone; featurize with steps=Tr"):
        _ = f.phi


def test_reading_g_does_not_change_the_features():
    f = features(outside=np.ones((2, 5)))
    before = f.values.copy()
    assert np.array_equal(f.g, f.g)
    assert np.array_equal(f.values, before)


def test_examples_without_a_name_are_numbered():
    assert features(3).ids == ("0", "1", "2")
    assert features(3, ids=["a", 7, "c"]).ids == ("a", "7", "c")
    assert features(0).ids == ()


def test_a_block_is_the_columns_of_its_parameter():
    assert features().block("core.b") == slice(3, 5)
    with pytest.raises(CoverageError, match=r"no parameter 'core.a' in these features; did you mean 'core."):
        features().block("core.a")


def test_features_made_alike_match():
    features(2).check_matches(features(5, steps=1, ids=list("abcde")))


def test_features_of_different_sketches_refuse_each_other():
    other = features(sketch="91c0 (m=4, seed=0, table)")
    message = (
        r"^train features use sketch 3f2a \(m=3, seed=0, table\), query features 91c0 \(m=4, seed=0, table\); "
        r"featurize both with one sketch$"
    )
    with pytest.raises(SketchMismatch, match=message):
        features().check_matches(other)
    with pytest.raises(SketchMismatch, match=r"^A features use sketch .*, B features"):
        features().check_matches(other, names=("A", "B"))


@pytest.mark.parametrize(
    "blocks",
    [
        (Block("core.w", (2, 2), 0, 3), Block("core.c", (2,), 3, 5)),
        (Block("core.w", (3, 2), 0, 3), Block("core.b", (2,), 3, 5)),
        (Block("core.w", (2, 2), 0, 2), Block("core.b", (2,), 2, 5)),
    ],
)
def test_features_of_different_parameters_refuse_each_other(blocks):
    message = r"^train and query features are of different parameters; featurize both with one Loop$"
    with pytest.raises(SketchMismatch, match=message):
        features().check_matches(features(blocks=blocks))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    ("column", "parameter"), [(0, "core.w"), (2, "core.w"), (3, "core.b"), (4, "core.b")]
)  # fmt: skip
def test_a_value_that_is_not_finite_is_named_by_parameter_step_and_example(bad, column, parameter):
    values = np.zeros((2, 3, 5))
    values[1, 2, column] = bad
    message = rf"^the gradient of '{parameter}' at step 3 of example 'b' is {bad}; check the loss and the model's weig"
    with pytest.raises(NonFiniteError, match=message):
        features(values=values, ids=["a", "b"])


def test_a_value_that_is_not_finite_in_a_sum_or_outside_is_named_too():
    bad = np.zeros((2, 5))
    bad[1, 3] = np.nan
    with pytest.raises(NonFiniteError, match=r"gradient of 'core.b' at the sum over steps of example '1' is nan"):
        features(values=bad)
    with pytest.raises(NonFiniteError, match=r"gradient of 'core.b' at outside the loop of example '1' is nan"):
        features(outside=bad)


@exact
@given(st.integers(1, 3), st.integers(2, 4), st.data())
def test_a_gradient_in_the_padding_is_refused_with_example_and_step(n, steps, data):
    tau = np.array(data.draw(st.lists(st.integers(1, steps), min_size=n, max_size=n)))
    ragged = features(n, steps, tau)
    i, t = data.draw(st.integers(0, n - 1)), data.draw(st.integers(0, steps - 1))
    values = ragged.values.copy()
    values[i, t, 4] = 1e-300
    if t < tau[i]:
        features(n, steps, tau, values=values)
        return
    message = f"beyond an example's tau must be zero: example '{i}' took {tau[i]} steps, got a gradient at step {t + 1}"
    with pytest.raises(ValueError, match=message):
        features(n, steps, tau, values=values)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"values": np.zeros((2, 3, 4))}, ValueError, "values must have 5 columns, the end of the last block, got 4"),
        ({"values": np.zeros(5)}, ValueError, r"values must have axes \(n, tau, D\) or \(n, D\), got shape \(5,\)"),
        ({"values": np.zeros((2, 3, 1, 5))}, ValueError, r"values must have axes .* got shape \(2, 3, 1, 5\)"),
        ({"outside": np.zeros((2, 4))}, ValueError, r"outside must have shape \(2, 5\), got \(2, 4\)"),
        ({"outside": np.zeros((2, 3, 5))}, ValueError, r"outside must have shape \(2, 5\), got \(2, 3, 5\)"),
        ({"tau": [3, 0]}, ValueError, r"tau must hold one number of steps of at least 1 for each of the 2 .* \[3 0\]"),
        ({"tau": [3]}, ValueError, r"tau must hold one number .* of the 2 examples, got \[3\]"),
        ({"tau": 3}, ValueError, r"tau must hold one number .* of the 2 examples, got 3"),
        ({"tau": [3, 4]}, ValueError, "tau must be at most the number of steps 3, got 4"),
        ({"tau": [3.0, 2.5]}, TypeError, "tau must hold integers, got float64"),
        ({"ids": ["only one"]}, ValueError, "ids must name each of the 2 examples, got 1"),
        ({"ids": list("abc")}, ValueError, "ids must name each of the 2 examples, got 3"),
        ({"ids": ["a", "a"]}, ValueError, "ids must name each example once, got 'a' twice"),
        ({"ids": [1, "1"]}, ValueError, "ids must name each example once, got '1' twice"),
        ({"blocks": ()}, ValueError, "values must have 0 columns"),
    ],
)
def test_what_does_not_fit_together_is_refused(changes, error, message):
    values = {"values": np.zeros((2, 3, 5)), "tau": [3, 3], "blocks": BLOCKS, "sketch": "3f2a"}
    Features(**values)
    with pytest.raises(error, match=message):
        Features(**{**values, **changes})


def test_tau_may_exceed_the_step_axis_only_when_there_is_none():
    assert features(values=np.zeros((2, 5)), tau=[7, 9]).tau.tolist() == [7, 9]


@exact
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.booleans()), min_size=1, max_size=3))
def test_concatenated_features_keep_every_example_as_it_was(sizes):
    parts = [
        features(n, steps, outside=np.full((n, 5), 7.0) if has_outside else None, ids=[f"{k}/{i}" for i in range(n)])
        for k, (n, steps, has_outside) in enumerate(sizes)
    ]
    whole = Features.concatenate(parts)
    assert whole.ids == tuple(i for part in parts for i in part.ids)
    assert np.array_equal(whole.g, np.concatenate([part.g for part in parts]))
    assert whole.tau.tolist() == [tau for part in parts for tau in part.tau]
    row = 0
    for part in parts:
        n, steps = part.values.shape[:2]
        assert np.array_equal(whole.phi[row : row + n, :steps], part.phi)
        assert not whole.phi[row : row + n, steps:].any()
        row += n


def test_examples_that_were_only_numbered_are_numbered_anew():
    assert Features.concatenate([features(2), features(1), features(3)]).ids == tuple("012345")
    assert Features.concatenate([features(2), features(1, ids=["2"])]).ids == tuple("012")
    with pytest.raises(ValueError, match="ids must name each example once, got 'a' twice"):
        Features.concatenate([features(2, ids=["a", "b"]), features(2, ids=["c", "a"])])
    with pytest.raises(ValueError, match="ids must name each example once, got '0' twice"):
        Features.concatenate([features(2), features(2, ids=["1", "0"])])


def test_features_that_were_not_made_alike_are_not_concatenated():
    summed = features(values=np.zeros((2, 5)))
    assert Features.concatenate([summed, summed]).values.shape == (4, 5)
    with pytest.raises(ValueError, match="parts must hold at least one Features, got none"):
        Features.concatenate([])
    with pytest.raises(ValueError, match="the first part and part 2 must both be step-resolved, or both be summed"):
        Features.concatenate([features(), summed])
    with pytest.raises(SketchMismatch, match=r"^the first features use sketch 3f2a .*, part 3's features 91c0;"):
        Features.concatenate([features(), features(), features(sketch="91c0")])
