"""Training of the reference backend: written out update by update, and its derivative by each example's weight."""

from __future__ import annotations

import numpy as np
import pytest

from sdi import LoopedConfig
from sdi.reference import LoopedTransformer, gradient, through_training, token_cross_entropy, train
from sdi.reference.gradients import gradients

CONFIG = LoopedConfig(vocab=4, classes=3, d=4, heads=2, tau=2, injection="concat")


def model() -> LoopedTransformer:
    rng = np.random.default_rng(0)
    return LoopedTransformer(CONFIG, {name: 0.4 * rng.normal(size=shape) for name, shape in CONFIG.shapes().items()})


def batch(seed: int, ids: list[object]) -> dict[str, object]:
    rng = np.random.default_rng(seed)
    tokens, targets = (rng.integers(k, size=(len(ids), 3)) for k in (4, 3))
    return {"id": ids, "tokens": tokens, "targets": targets, "tau": np.array([2, 3, 1][: len(ids)])}


BATCHES = [batch(1, ["a", "b", "c"]), batch(2, ["d", 7]), batch(3, ["b", "e", "a"])]
RATES = [0.5, 0.25, 1.0]
QUERY = batch(4, ["q0", "q1", "q2"])


@pytest.mark.parametrize("momentum", [None, 0.0, 0.9])
def test_training_is_sgd_with_momentum_on_the_mean_of_weighted_losses(momentum: float | None) -> None:
    weights = {"b": 0.5, "7": 2.0, "e": 0.0}
    options = {} if momentum is None else {"momentum": momentum}
    theta = {name: w.copy() for name, w in model().weights.items()}
    velocity = {name: np.zeros_like(w) for name, w in theta.items()}
    for one, rate in zip(BATCHES, RATES, strict=True):
        grads = gradient(LoopedTransformer(CONFIG, theta), token_cross_entropy, one)
        for name, g in grads.items():
            mean = sum(weights.get(str(i), 1.0) * part for i, part in zip(one["id"], g, strict=True)) / len(one["id"])
            velocity[name] = (momentum or 0.0) * velocity[name] + mean
            theta[name] = theta[name] - rate * velocity[name]
    end = train(model(), token_cross_entropy, BATCHES, RATES, weights=weights, **options)
    assert end.config == CONFIG
    for name, w in theta.items():
        np.testing.assert_allclose(end.weights[name], w, rtol=0, atol=1e-13)
    plain = train(model(), token_cross_entropy, BATCHES, RATES, **options)
    assert any(np.abs(plain.weights[name] - w).max() > 1e-3 for name, w in theta.items())
    with pytest.raises(ValueError, match="shorter"):
        train(model(), token_cross_entropy, BATCHES, RATES[:2])


@pytest.mark.parametrize("momentum", [None, 0.9])
def test_the_derivative_through_training_is_that_of_central_differences(momentum: float | None) -> None:
    options = {} if momentum is None else {"momentum": momentum}
    found = through_training(model(), token_cross_entropy, BATCHES, RATES, QUERY, **options)
    assert (found.steps.shape, found.outside.shape) == ((6, 3, 3), (6, 3))
    assert found.steps.dtype == found.outside.dtype == np.float64
    end = train(model(), token_cross_entropy, BATCHES, RATES, **options)
    grads, h = gradients(end, token_cross_entropy, QUERY), 1e-5
    for k, i in enumerate(["a", "b", "c", "d", "7", "e"]):
        up, down = (
            train(model(), token_cross_entropy, BATCHES, RATES, weights={i: 1 + sign * h}, **options).weights
            for sign in (1, -1)
        )
        way = {name: (up[name] - down[name]) / (2 * h) for name in up}
        steps, outside = (
            sum(np.tensordot(p, way[name], axes=way[name].ndim) for name, p in part.items())
            for part in (grads.phi, grads.outside)
        )
        np.testing.assert_allclose(found.steps[k], steps, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.outside[k], outside, rtol=1e-7, atol=1e-9)
    assert (np.abs(found.outside) > 1e-6).any()
