"""What step gradients must do, whatever the model: add up, vanish where nothing can be seen, not mind company."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from reference_cases import assert_close, loss_of

from sdi import LoopedConfig
from sdi.proofs_checks.machinery.looped_models import largest
from sdi.reference import gradient, step_gradients, token_cross_entropy
from sdi.testing import LoopedCase, looped_cases, make_batch, make_model

SETTINGS = settings(max_examples=25, deadline=None, derandomize=True, database=None)


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_steps_sum_to_the_gradient(case: LoopedCase) -> None:
    g = gradient(case.model, token_cross_entropy, case.batch)
    for name, phi in step_gradients(case.model, token_cross_entropy, case.batch).items():
        assert_close(phi.sum(axis=1), g[name], name)


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_steps_after_the_read_out_are_exactly_zero_and_the_read_out_step_is_not(case: LoopedCase) -> None:
    phi = step_gradients(case.model, token_cross_entropy, case.batch)
    for i, r in enumerate(case.readout):
        assert all(not grad[i, r:].any() for grad in phi.values())
        assert stays_zero(case.config) or any(grad[i, r - 1].any() for grad in phi.values())


def stays_zero(config: LoopedConfig) -> bool:
    """A state of zero that nothing is added to: without input and without biases, there is nothing to learn from."""
    return config.state == "zero" and config.injection == "none" and config.norm == "rms" and not config.bias


@pytest.mark.slow
@SETTINGS
@given(looped_cases(bptt=2))
def test_truncation_zeroes_early_steps_exactly_and_leaves_the_others_alone(case: LoopedCase) -> None:
    cut = step_gradients(case.model, token_cross_entropy, case.batch)
    whole_model = replace(case.model, config=replace(case.config, bptt=None))
    whole = step_gradients(whole_model, token_cross_entropy, case.batch)
    assert_close(loss_of(case.model, case.batch), loss_of(whole_model, case.batch), rtol=0)
    for name in cut:
        for i, r in enumerate(case.readout):
            first = max(r - 2, 0)
            assert not cut[name][i, :first].any()
            assert_close(cut[name][i, first:], whole[name][i, first:], name)


def test_truncation_cuts_the_state_and_not_the_injected_input() -> None:
    """Carried by the state alone, the embedding is out of reach of a truncated loss; injected, it is not."""
    for injection, readout, reached in [("none", 2, True), ("none", 3, False), ("add", 3, True)]:
        config = LoopedConfig(vocab=3, classes=3, d=4, tau=4, injection=injection, bptt=2)
        model, batch = make_model(config, seed=0), make_batch(config, seed=1)
        batch |= {"tau": np.full(3, 4), "readout": np.full(3, readout)}
        g = gradient(model, token_cross_entropy, batch)["read_in.weight"]
        assert g.any(axis=(1, 2)).tolist() == [reached] * 3


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_a_ragged_batch_equals_its_examples_one_by_one(case: LoopedCase) -> None:
    together = step_gradients(case.model, token_cross_entropy, case.batch)
    total = gradient(case.model, token_cross_entropy, case.batch)
    losses = loss_of(case.model, case.batch)
    for i, tau in enumerate(case.tau):
        alone = step_gradients(case.model, token_cross_entropy, case.example(i))
        size = largest(gradient(case.model, token_cross_entropy, case.example(i)))
        for name, phi in alone.items():
            assert phi.shape[1] == tau
            assert not together[name][i, tau:].any()
            np.testing.assert_allclose(together[name][i, :tau], phi[0], rtol=1e-12, atol=1e-13 * size)
        for name, g in gradient(case.model, token_cross_entropy, case.example(i)).items():
            np.testing.assert_allclose(total[name][i], g[0], rtol=1e-12, atol=1e-13 * size)
        np.testing.assert_allclose(losses[i], loss_of(case.model, case.example(i))[0], rtol=1e-13)


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_reading_out_early_equals_taking_fewer_steps(case: LoopedCase) -> None:
    shorter = {**case.batch, "tau": case.readout, "readout": case.readout}
    early = step_gradients(case.model, token_cross_entropy, {**case.batch, "tau": case.tau, "readout": case.readout})
    for name, phi in step_gradients(case.model, token_cross_entropy, shorter).items():
        np.testing.assert_array_equal(early[name][:, : phi.shape[1]], phi)


def test_masked_tokens_do_not_count_whatever_their_targets() -> None:
    config = LoopedConfig(vocab=4, classes=4, d=4, tau=2)
    model, batch = make_model(config, seed=0), make_batch(config, seed=1)
    ignored = {**batch, "targets": np.where(batch["mask"], batch["targets"], -100)}
    assert not batch["mask"].all()
    np.testing.assert_array_equal(loss_of(model, batch), loss_of(model, ignored))
    a, b = (gradient(model, token_cross_entropy, x) for x in (batch, ignored))
    assert all((a[name] == b[name]).all() for name in a)
