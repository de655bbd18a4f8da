"""The estimated variance of scores against its definition, pair by pair."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from sdi.scores import estimated_error
from sdi.scores.estimated_error import estimate_of, estimated_variance
from sdi.sketch.bounds import worst_case
from sdi.sketch.estimate_variance import Pairs
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.shipped.mask import MaskSketch
from sdi.sketch.sketch_map import SketchMap

SKETCH = SketchMap.draw({"w": (9, 8), "b": (40,), "small": (3,)}, m=12)
ETA = np.array([0.5, 2.0, 1.5])


class Users(CountSketch):
    """A class that is not the library's: its estimate is not trusted."""


def one_pair(a: np.ndarray, b: np.ndarray, eta: np.ndarray, sketch: SketchMap = SKETCH) -> float:
    variance = score = norms = 0.0
    for block, weight in zip(sketch.blocks, eta, strict=True):
        x, y = a[block.start : block.stop], b[block.start : block.stop]
        sizes = sqrt(x @ x) * sqrt(y @ y)
        if sizes:
            unit = Pairs.of(x[None] / sqrt(x @ x), y[None] / sqrt(y @ y))
            variance += (weight * sizes) ** 2 * sketch.sketches[block.name].variance_estimate(unit)[0, 0]  # type: ignore[attr-defined]
        score += weight * (x @ y)
        norms += weight * sizes
    r = min(sqrt(variance) * abs(score) / norms**2, 0.75) if norms else 0.0
    return variance * (1.1 / (1 - r)) ** 2


def near(found: np.ndarray, train: np.ndarray, query: np.ndarray, eta: np.ndarray) -> bool:
    rows, columns = train.reshape(-1, train.shape[-1]), query.reshape(-1, query.shape[-1])
    wanted = np.array([[one_pair(a, b, eta) for b in columns] for a in rows])
    shape = (*train.shape[:-1], *query.shape[:-1])
    return found.shape == shape and bool(np.allclose(found, wanted.reshape(shape), rtol=1e-11, atol=0))


@pytest.mark.parametrize("chunk", [1, 700, 1 << 25])
@pytest.mark.parametrize(("n", "q"), [((1,), (1,)), ((3,), (2,)), ((5,), (2, 3)), ((2, 3), (4,)), ((2, 1, 2), (1, 3))])
@pytest.mark.parametrize("eta", [ETA, np.array([0.0, 1.0, 0.0]), np.zeros(3)], ids=["all", "one", "none"])
def test_it_is_what_the_definition_says(monkeypatch, chunk, n, q, eta):
    monkeypatch.setattr(estimated_error, "CHUNK_BYTES", chunk)
    rng = np.random.default_rng(0)
    train, query = rng.normal(size=(*n, SKETCH.size)), rng.normal(size=(*q, SKETCH.size))
    assert near(estimated_variance(SKETCH, train, query, eta), train, query, eta)


def test_it_is_not_widened_beyond_four_times():
    """A gradient with itself in few buckets: the estimated deviation is more than 3/4 of the norms."""
    sketch = SketchMap({"w": TensorSketch.draw((9, 8), 2)}, {"w": (9, 8)})
    x = np.array([[1.0, 0.2]])
    wanted = worst_case(sketch.sketches["w"]) * (x @ x.T) ** 2 * (1.1 / 0.25) ** 2
    assert np.allclose(estimated_variance(sketch, x, x, np.ones(1)), wanted, rtol=1e-12)


@pytest.mark.parametrize("scale", [1e-80, 1.0, 1e60])
def test_fourth_powers_neither_overflow_nor_underflow(scale):
    rng = np.random.default_rng(1)
    train, query = rng.normal(size=(2, SKETCH.size)), rng.normal(size=(3, SKETCH.size))
    found = estimated_variance(SKETCH, scale * train, query, ETA)
    assert np.allclose(found / scale**2, estimated_variance(SKETCH, train, query, ETA), rtol=1e-9)


def test_single_precision_is_squared_in_double_precision():
    rng = np.random.default_rng(2)
    train = (1e-30 * rng.normal(size=(2, SKETCH.size))).astype(np.float32)
    found = estimated_variance(SKETCH, train, np.ones((1, SKETCH.size), dtype=np.float32), ETA)
    assert np.allclose(
        found, estimated_variance(SKETCH, train.astype(np.float64), np.ones((1, SKETCH.size)), ETA), rtol=1e-3
    )
    assert (found > 0).all()


def test_zeros_have_no_variance_and_no_example_gives_no_row():
    zeros = np.zeros((2, SKETCH.size))
    assert np.array_equal(estimated_variance(SKETCH, zeros, zeros + 1, ETA), np.zeros((2, 2)))
    assert estimated_variance(SKETCH, zeros[:0], zeros, ETA).shape == (0, 2)
    assert estimated_variance(SKETCH, zeros, zeros[:0], ETA).shape == (2, 0)


def test_a_users_sketch_is_given_the_bound_that_it_claims():
    rng = np.random.default_rng(3)
    pairs = Pairs.of(rng.normal(size=(2, 8)), rng.normal(size=(3, 8)))
    ours, theirs = CountSketch.draw((30,), 8), Users.draw((30,), 8)
    assert np.array_equal(estimate_of(theirs, pairs), worst_case(theirs) * pairs.norms)
    assert np.array_equal(estimate_of(ours, pairs), ours.variance_estimate(pairs))
    mask = MaskSketch.draw((30,), 8)  # ours, without an estimate
    assert np.array_equal(estimate_of(mask, pairs), worst_case(mask) * pairs.norms)
