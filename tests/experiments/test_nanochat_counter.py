"""Swaps of states and Jacobians of steps: what they must equal by definition, and planted effects beside none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from sdi.experiments.nanochat import CONFIGS, prepare
from sdi.experiments.nanochat.corpus import Rendered
from sdi.experiments.nanochat.findings.growth import left_by
from sdi.experiments.nanochat.findings.jacobian import gradient_norms, jacobians, spectral_norm, step_norms
from sdi.experiments.nanochat.findings.swap import difference, ratio, states_after, swapped_batches
from sdi.experiments.nanochat.model import FromState, begin, fresh_model, step
from sdi.fast import LoopedTransformer, featurize, token_cross_entropy

TINY = replace(CONFIGS["smoke"], vocab=11, d=8, scale=0.3)


def tiny(tau=6, **more):
    """A model whose state matters: at first the injection passes little of it."""
    model = fresh_model(TINY)
    with torch.no_grad():
        model.inject.weight[:, 8:].add_(0.5 * torch.eye(8))
    return LoopedTransformer(replace(TINY.model_config(tau, truncated=False), **more), model.weights()).double()


def batch(n=3, length=5, **more):
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, TINY.vocab, (n, length + 1)))
    return {"tokens": tokens[:, :-1], "targets": tokens[:, 1:], **more}


@pytest.mark.slow
@pytest.mark.parametrize("of", [1, 3, 5])
def test_a_sequence_with_its_own_state_of_another_step_goes_on_as_in_a_longer_or_shorter_loop(of):
    model, at, tau = tiny(), 3, 6
    state = states_after(model, batch()["tokens"], [of])[of]
    with torch.no_grad():
        swapped = FromState(model)(batch(state=state, tau=torch.full((3,), tau - at)))
        shifted = model(batch(tau=torch.full((3,), of + tau - at)))
        plain = FromState(model)(batch(tau=torch.full((3,), of + tau - at)))
    assert torch.equal(swapped, shifted)
    assert torch.equal(plain, shifted)
    assert of == at or not torch.allclose(shifted, model(batch(tau=torch.full((3,), tau))))


@pytest.mark.slow
def test_steps_after_a_state_that_is_held_constant_are_the_last_of_the_truncated_model():
    cut = tiny(bptt=2)
    own = states_after(cut, batch()["tokens"], [4])[4]
    swapped = FromState(tiny())
    found = featurize(
        swapped, token_cross_entropy, batch(state=own, tau=torch.full((3,), 2)), loop=cut.config.loop()
    ).phi
    truth = featurize(cut, token_cross_entropy, batch(), loop=cut.config.loop()).phi
    assert found.shape[1] == 2
    assert np.allclose(found, truth[:, 4:], rtol=1e-9, atol=1e-14)


@pytest.mark.slow
def test_the_other_state_is_the_neighbours_in_length(tmp_path):
    s = replace(CONFIGS["smoke"], d=8, queries=5)
    chat = prepare(s, tmp_path)
    model = FromState(fresh_model(s))
    found = swapped_batches(model, chat, 3, [1, 3], tau=6)
    assert list(found) == ["own, 1", "own, 3", "other, 1", "other, 3"]
    (own,), (other,) = found["own, 3"], found["other, 3"]
    assert own["tau"].tolist() == [3] * 5
    assert torch.equal(own["state"], states_after(model, own["tokens"], [3])[3])
    assert torch.equal(other["state"][1:], own["state"][:-1])
    assert torch.equal(other["state"][0], own["state"][-1])
    assert not torch.equal(own["state"], found["own, 1"][0]["state"])
    lengths = own["mask"].flip(1).argmax(dim=1).tolist()  # of padding
    assert lengths == sorted(lengths, reverse=True)
    ids = [one for some in found.values() for b in some for one in b["id"]]
    assert len(set(ids)) == 20


def test_a_planted_difference_and_ratio_are_found_and_none_is_where_none_is():
    """100 pairs; an effect of 5 standard errors, and 200 sets without one, of which 10 +- 3 miss: at most 20."""
    rng = np.random.default_rng(0)
    base = rng.normal(5, 1, 100)
    moved = difference(base + rng.normal(0.5, 1, 100), base, 300, 0)
    assert 0 < moved["low"] < moved["value"] < moved["high"] < 1
    doubled = ratio(2 * base + rng.normal(0, 0.5, 100), base, 300, 0)
    assert 1.9 < doubled["low"] < 2 < doubled["high"] < 2.1
    assert ratio(base, 0 * base, 300, 0) is None
    missed = 0
    for seed in range(200):
        found = difference(np.random.default_rng(seed).normal(0, 1, 60), np.zeros(60), 200, seed)
        missed += not found["low"] <= 0 <= found["high"]
    assert 1 <= missed <= 20


def test_the_spectral_norm_of_a_planted_map_is_found():
    rng = np.random.default_rng(0)
    u, v = (np.linalg.qr(rng.normal(size=(6, 6)))[0] for _ in range(2))
    a = torch.from_numpy(u @ np.diag([3.0, 1.5, 1, 0.5, 0.2, 0]) @ v)
    sigma, change = spectral_norm(lambda x: x @ a.T, torch.zeros(6, dtype=torch.float64), 30, 0)
    assert sigma == pytest.approx(3, rel=1e-9)
    assert change < 1e-9
    early, change = spectral_norm(lambda x: x @ a.T, torch.zeros(6, dtype=torch.float64), 2, 0)
    assert early < 3 - 1e-3
    assert change > 1e-3
    assert spectral_norm(lambda x: 0 * x, torch.ones(6), 5, 0) == (0, 0)


@pytest.mark.slow
def test_norms_of_steps_and_gradients_are_those_of_dense_jacobians():
    model, tokens, tau = tiny(), [1, 4, 2, 7], 3
    row = Rendered(tokens, [False, True, True, True])
    norms, _ = step_norms(model, [row], tau, 40, 0)
    g = gradient_norms(model, [row], tau)[0]
    e = begin(model, torch.tensor([tokens[:-1]])).detach()
    s, dense = e, []
    with sdpa_kernel(SDPBackend.MATH):
        for _ in range(tau):
            dense.append(torch.autograd.functional.jacobian(lambda x: step(model, e, x), s).reshape(24, 24).numpy())
            s = step(model, e, s).detach()
    assert norms[0] == pytest.approx([np.linalg.norm(j, 2) for j in dense], rel=1e-3)
    s = s.requires_grad_()
    logits = model.head(model.norm_out(model.coda(s)))
    logits = model.config.softcap * torch.tanh(logits / model.config.softcap)
    value = torch.nn.functional.cross_entropy(logits[0], torch.tensor(tokens[1:]))
    back = torch.autograd.grad(value, s)[0].flatten().numpy()
    expected = [np.linalg.norm(back)]
    for j in reversed(dense[1:]):
        back = j.T @ back
        expected.insert(0, np.linalg.norm(back))
    assert g == pytest.approx(expected, rel=1e-6)
    told = jacobians(model, [row], [2, 3], 40, 0)
    assert told["curves"]["3"]["spectral"] == pytest.approx([norms[0, 1] * norms[0, 2], norms[0, 2], 1])
    assert told["curves"]["3"]["gradient"] == pytest.approx(g)
    assert told["back"]["3"] == pytest.approx(np.sqrt(g[0] / g[2]))
    assert len(told["norm"]) == 3


def test_a_told_curve_leaves_nothing_of_its_own_profile_and_all_of_an_orthogonal_one():
    rng = np.random.default_rng(0)
    curve = 1.6 ** np.arange(8)
    y = rng.lognormal(0, 0.3, (40, 1)) * curve + 0.3 * rng.normal(size=(40, 8))
    own, even = left_by(y, curve, 200, 0), left_by(y, np.ones(8), 200, 0)
    assert own["share"] < 0.01
    assert own["low"] <= own["share"] <= own["high"] < even["low"] < even["share"]
    assert left_by(np.array([[1.0, 1.0]]), np.array([1.0, -1.0]), 5, 0)["share"] == pytest.approx(1)
    assert left_by(np.zeros((3, 2)), np.ones(2), 5, 0)["share"] is None
