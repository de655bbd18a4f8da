"""Probes of the loop's state: they read what is there, on held-out sequences, and nothing where nothing is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sdi.experiments.nanochat import CONFIGS
from sdi.experiments.nanochat.findings.probe import probe, read, states
from sdi.experiments.nanochat.model import fresh_model


def planted(n=120, tau=6, d=24, seed=0, size=3.0):
    """States with a direction for each step, among noise."""
    rng = np.random.default_rng(seed)
    return size * rng.normal(size=(tau, d)) + rng.normal(size=(n, tau, d))


def test_a_planted_counter_is_read_and_noise_is_not():
    """Of 360 and 180 held-out states; chance 1/6, standard errors 0.02 and 0.03."""
    found = probe(planted(), 100, seed=0)
    assert found["index"]["low"] > 0.95
    assert found["index, chance"] == 1 / 6
    noise = probe(
        planted(n=60, d=150, size=0.0), 100, seed=0
    )  # so wide that states which were fitted would be known again
    assert noise["index"]["low"] < 1 / 6 < noise["index"]["high"] < 0.27
    assert noise["to go"]["high"] < 0.05
    assert np.mean(noise["by step"]) == pytest.approx(noise["index"]["share"])


def test_steps_to_go_are_read_as_well_as_by_one_who_knows_the_index_and_no_better():
    """Left of a horizon that is uniform from step t to 6, the index explains the variance of its means: by hand."""
    found = probe(planted(n=800), 100, seed=1)
    k = np.arange(1, 7)  # horizons possible
    within, between = ((k**2 - 1) / 12).mean(), ((k - 1) / 2).var()
    best = between / (within + between)
    assert abs(found["to go, of one who knows the index"]["share"] - best) < 0.04
    assert best - 0.08 < found["to go"]["share"] < best + 0.04


def test_a_line_is_read_with_its_constant():
    x = np.array([[0.0], [1.0], [2.0]])
    assert np.allclose(read(x, 3 * x + 50, np.array([[4.0]])), 62, atol=0.5)


@pytest.mark.slow
def test_states_are_those_of_the_model_at_the_last_token():
    model = fresh_model(replace(CONFIGS["smoke"], vocab=11, d=8, scale=0.3))
    prompts = [[1, 2, 3], [4, 5, 6, 7, 8]]
    found = states(model, prompts, tau=3)
    assert found.shape == (2, 3, 8)
    for k, p in enumerate(prompts):
        for t in (1, 2, 3):
            with torch.no_grad():
                e = model.prelude(model.norm_in(model.read_in(torch.tensor([p]))))
                s = model.loop(e, torch.tensor([t]), torch.tensor([t]))
            assert np.allclose(found[k, t - 1], s[0, -1], atol=1e-6)
