"""The recursive chat model: its size, truncation with true step labels, and that its states do not know the horizon."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sdi.experiments.nanochat import CONFIGS
from sdi.experiments.nanochat.model import fresh_model
from sdi.fast import LoopedTransformer, featurize, token_cross_entropy

pytestmark = pytest.mark.slow

TINY = replace(CONFIGS["smoke"], vocab=11, d=8, scale=0.3)


def batch(n: int = 3, length: int = 5, **more: object) -> dict[str, object]:
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, TINY.vocab, (n, length + 1)))
    return {"tokens": tokens[:, :-1], "targets": tokens[:, 1:], **more}


def test_the_papers_configuration_has_its_number_of_parameters():
    with torch.device("meta"):
        model = LoopedTransformer(CONFIGS["paper"].model_config())
    assert sum(p.numel() for p in model.parameters()) == 328_335_360
    assert model.config.bptt == 4
    assert (len(model.prelude), len(model.core), len(model.coda)) == (2, 4, 2)


def test_at_first_the_injection_passes_the_input_and_not_the_state():
    w = fresh_model(replace(TINY, scale=1e-6)).inject.weight
    assert torch.allclose(w, torch.cat([torch.eye(8), torch.zeros(8, 8)], dim=1), atol=1e-4)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("tau", [2, 4, 7])
def test_truncated_steps_keep_their_index_and_earlier_ones_are_exactly_zero(memory, tau):
    """Steps of the truncated model are those of the whole one among the last 4, and 0 before."""
    whole, cut = (
        LoopedTransformer(TINY.model_config(tau, truncated), fresh_model(TINY).weights()) for truncated in (False, True)
    )
    phi = [
        featurize(model.double(), token_cross_entropy, batch(), loop=model.config.loop(), memory=memory).phi
        for model in (whole, cut)
    ]
    assert phi[0].shape[:2] == (3, tau)
    dead = max(0, tau - 4)
    assert (np.abs(phi[0]).max(axis=(0, 2)) > 0).all()
    assert (phi[1][:, :dead] == 0).all()
    assert np.allclose(phi[1][:, dead:], phi[0][:, dead:], rtol=1e-12, atol=0)


def test_the_gradient_of_training_is_that_of_the_last_steps():
    """A batch that says its own number of steps is cut before the last 4 of these, as autograd sees it."""
    model = LoopedTransformer(TINY.model_config(), fresh_model(TINY).weights()).double()
    token_cross_entropy(model, batch(tau=torch.full((3,), 6))).sum().backward()
    whole = LoopedTransformer(TINY.model_config(6, truncated=False), fresh_model(TINY).weights()).double()
    features = featurize(whole, token_cross_entropy, batch(), loop=whole.config.loop())
    last = features.phi[:, 2:].sum(axis=(0, 1))
    for name, p in model.named_parameters():
        if name.startswith(("inject", "core")):
            assert np.allclose(p.grad.flatten(), last[features.block(name)], rtol=1e-9, atol=1e-14)


def test_the_state_of_a_step_is_the_same_whatever_the_horizon():
    """So no state can say how many steps are left: a profile aligned to the end is no sign of a counter."""
    model = fresh_model(TINY)
    with torch.no_grad():
        e = model.prelude(model.norm_in(model.read_in(batch()["tokens"])))
        readout = torch.full((3,), 3)
        states = [model.loop(e, torch.full((3,), tau), readout) for tau in (3, 4, 9)]
    assert all(torch.equal(states[0], s) for s in states)
