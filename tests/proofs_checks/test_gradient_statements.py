"""The statements on gradients, influences and backends come first, and a break in what they check turns them red."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import sdi.proofs_checks as proofs
from sdi import reference
from sdi.proofs_checks.backends import fast_agrees
from sdi.proofs_checks.machinery import looped_models
from sdi.proofs_checks.machinery.polynomial_loop import PolynomialLoop

NAMES = (
    "gradient.total_derivative", "gradient.outer_products", "steps.after_readout", "steps.truncation",
    "influence.sums", "influence.backends", "influence.weights", "summaries", "masses",
    "influence.asymmetry", "sketch.conservation", "backends.agree",
    "kernels.agree", "exact_scores", "influence.through_training", "influence.preconditioned",
)  # fmt: skip


def test_every_statement_on_gradients_is_registered_and_comes_first() -> None:
    assert tuple(s.name for s in proofs.statements()[: len(NAMES)]) == NAMES


@pytest.mark.parametrize(
    ("module", "function", "broken", "red"),
    [
        ("activations", "_gelu", lambda x: (x * 0.5, 0 * x + 0.6), ("gradient.total_derivative", "backends.agree")),
        ("bptt", "_live", lambda t, readout, k: readout > 0, ("steps.truncation",)),
        ("bptt", "_live", lambda t, readout, k: t < readout, ("gradient.total_derivative", "steps.after_readout")),
    ],
)
def test_a_break_in_the_reference_turns_its_statements_red(
    monkeypatch: pytest.MonkeyPatch, module: str, function: str, broken: Any, red: tuple[str, ...]
) -> None:
    monkeypatch.setattr(f"sdi.reference.{module}.{function}", broken)
    for name in red:
        (s,) = proofs.statements(name)
        with no_truths():
            report = proofs.run(s)
        assert not report.holds
        assert not report.detail.startswith("raised"), report.detail


@contextmanager
def no_truths() -> Iterator[None]:
    """What the reference answered is kept neither from before nor for later."""
    fast_agrees._truths.cache_clear()
    yield
    fast_agrees._truths.cache_clear()


def test_the_cases_differ_in_steps_readouts_and_masks() -> None:
    for case in looped_models.cases(thorough=True):
        assert len(set(case.batch["tau"])) > 1
        assert (case.readout < case.batch["tau"]).any()
        assert not case.batch["mask"].all()


def test_matches_rejects_what_is_not_close() -> None:
    v, grad = np.ones(2), np.array([[1.0, 2.0]])
    assert looped_models.matches(grad, v, np.array([3.0]), size=1.0)
    assert not looped_models.matches(grad, v, np.array([3.0 + 1e-9]), size=1.0)
    assert not looped_models.matches(grad, v, np.array([np.nan]), size=1.0)


def test_the_complex_step_agrees_with_central_differences() -> None:
    case = next(looped_models.cases(thorough=False))
    name, h = "core.0.mlp.up.weight", 1e-6
    weights = case.model.weights
    v = np.random.default_rng(0).normal(size=weights[name].shape)

    def loss(sign: int, step: int) -> np.ndarray:
        moved = {**weights, name: weights[name] + sign * h * v}
        logits = case.model.forward(case.batch, lambda t: moved if t == step else weights)
        return reference.token_cross_entropy.of_logits(logits, case.batch)

    for t in (1, 2):
        wanted = (loss(1, t) - loss(-1, t)) / (2 * h)
        np.testing.assert_allclose(looped_models.along(case, name, v, steps=(t,)), wanted, atol=1e-8)
        assert np.abs(wanted).min() > 1e-4


def test_dual_numbers_differentiate_a_polynomial_exactly() -> None:
    """With one step the loss is a quartic in b, so f' = (8 (f(1) - f(-1)) - (f(2) - f(-2))) / 12 is exact."""
    model = PolynomialLoop(d_out=2, d_in=2, L=2, tau=1, seed=0)

    def loss(shift: int) -> int:
        h = model.h0
        a = model.M @ (h * h) + h
        b = model.b.copy()
        b[1] += shift
        c = a @ model.W.T + b
        error = (c * c) @ model.V + c @ model.U + model.e - model.y
        return (error * error).sum()

    twelfth = 8 * (loss(1) - loss(-1)) - (loss(2) - loss(-2))
    assert twelfth % 12 == 0
    assert model.run("b", 1, (1,))[0] == twelfth // 12
