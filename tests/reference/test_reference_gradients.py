"""The hand-written gradients against derivatives that know nothing of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from reference_cases import H, along, assert_inner_product, direction, loss_of, nudged

from sdi import LoopedConfig
from sdi.proofs_checks.machinery.looped_models import largest
from sdi.reference import gradient, step_gradients, token_cross_entropy
from sdi.testing import LoopedCase, looped_cases, make_batch, make_model

pytestmark = pytest.mark.slow


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(looped_cases())
def test_gradients_agree_with_complex_step_differentiation(case: LoopedCase) -> None:
    grads = gradient(case.model, token_cross_entropy, case.batch)
    rng = np.random.default_rng(0)
    assert list(grads) == list(case.config.shapes())
    for name, grad in grads.items():
        v = direction(rng, grad.shape[1:])
        wanted = along(case.model, case.batch, name, v)
        assert_inner_product(wanted, grad, v, largest(grads), name)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu2"])
@pytest.mark.parametrize("norm", ["layer", "rms"])
def test_gradients_agree_with_central_differences(activation: str, norm: str) -> None:
    config = LoopedConfig(
        vocab=4, classes=3, d=8, heads=2, tau=3, length=4, prelude=1, coda=1, injection="concat", norm=norm,
        activation=activation, positions=True, rotary=True, qk_norm=True, norm_in=True, loop_norm=True, softcap=2.0,
    )  # fmt: skip
    model, batch = make_model(config, seed=1), make_batch(config, seed=2)
    grads = gradient(model, token_cross_entropy, batch)
    rng, h = np.random.default_rng(3), 1e-6
    for name, grad in grads.items():
        v = direction(rng, grad.shape[1:])
        wanted = (loss_of(nudged(model, name, h * v), batch) - loss_of(nudged(model, name, -h * v), batch)) / (2 * h)
        # Rounding of the loss over h, and h^2 of a third derivative.
        assert np.abs((grad * v).reshape(len(grad), -1).sum(axis=1) - wanted).max() < 1e-7 * max(1, largest(grads)), (
            name
        )


@settings(max_examples=30, deadline=None, derandomize=True, database=None)
@given(looped_cases())
def test_phi_is_the_derivative_by_the_copy_of_the_weights_used_at_that_step_alone(case: LoopedCase) -> None:
    phi = step_gradients(case.model, token_cross_entropy, case.batch)
    rng = np.random.default_rng(0)
    for name, grad in phi.items():
        assert grad.shape == (case.n, case.tau.max(), *case.config.shapes()[name])
        v = direction(rng, grad.shape[2:])
        copy = nudged(case.model, name, 1j * H * v).weights
        for t in range(1, case.tau.max() + 1):
            logits = case.model.forward(
                case.batch, lambda now, t=t, copy=copy: copy if now == t else case.model.weights
            )
            wanted = token_cross_entropy.of_logits(logits, case.batch).imag / H
            assert_inner_product(wanted, grad[:, t - 1], v, largest(phi), f"{name} at step {t}")


def test_the_gradient_at_the_logits_agrees_with_complex_step_differentiation() -> None:
    rng = np.random.default_rng(0)
    logits, v = rng.normal(size=(2, 3, 5)) * 4, rng.normal(size=(2, 3, 5))
    batch = {"targets": rng.integers(5, size=(2, 3)), "mask": np.array([[0.5, 0.0, 2.0], [1.0, 1.0, 1.0]])}
    wanted = token_cross_entropy.of_logits(logits + 1j * H * v, batch).imag / H
    got = (token_cross_entropy.dlogits(logits, batch) * v).sum(axis=(1, 2))
    np.testing.assert_allclose(got, wanted, rtol=1e-13)
