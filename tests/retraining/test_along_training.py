"""Cheaper scores along training: they are their definitions, written out, and conserve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from training_cases import QUERY, UPDATES, N, make_net, make_run

import sdi
from sdi.backends import backend, room
from sdi.inputs.batches import name_examples

training = room("fast.training")


def gradients(run: sdi.TrainingRun, weights: torch.Tensor, batch: Any) -> tuple[Any, Any]:
    """(phi with slot 0 outside, whole gradient) of each example by the engine and by autograd, on all parameters."""
    model = make_net()
    parts = torch.split(weights, [p.numel() for p in model.parameters()])
    with torch.no_grad():
        for p, part in zip(model.parameters(), parts, strict=True):
            p.copy_(part.view(p.shape))
    losses = run.loss(model, name_examples(batch).batch)
    whole = [torch.cat([g.flatten() for g in torch.autograd.grad(x, list(model.parameters()), retain_graph=True)])
             for x in losses]  # fmt: skip
    g = torch.stack(whole).numpy()
    engine = backend("fast").featurize(model, run.loss, name_examples(batch).batch, loop=run.loop)
    body = np.concatenate([np.full(p.numel(), n.startswith("core")) for n, p in model.named_parameters()])
    phi = np.zeros((len(g), 4, g.shape[1]))
    phi[:, 1:, body] = engine.phi
    phi[:, 0] = g - phi.sum(axis=1)
    return phi, g


@pytest.mark.slow
def test_tracin_split_over_steps_is_its_definition() -> None:
    run = make_run("sgd", updates=4)
    result = sdi.along_training(run, QUERY, checkpoints=4)
    replay = training.Replay(run)
    place = {i: k for k, i in enumerate(run.ids)}
    wanted = np.zeros((len(place), 3, 4))
    for k in range(4):
        state = replay.last if k == 3 else replay.state_before(k + 1)
        phi = np.concatenate([gradients(run, state[0], b)[0] for b in QUERY])
        seen = {}
        for b in run.batches:
            seen |= dict(zip(b["id"], gradients(run, state[0], b)[1], strict=True))
        for i, g in seen.items():
            wanted[place[i]] += run.rates[k] * np.einsum("d,qtd->qt", g, phi)
    np.testing.assert_allclose(result.sdi.values, wanted[..., 1:], rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.outside.values, wanted[..., 0], rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("precondition", [None, "adam", "fisher", "cosine"])
def test_gradients_as_met_and_steps_at_the_end_are_their_definition(precondition: str | None) -> None:
    run = make_run("adam")
    result = sdi.along_training(run, QUERY, checkpoints=None, precondition=precondition, window=9)
    replay = training.Replay(run)
    both = [gradients(run, replay.weights, b) for b in QUERY]
    phi, g_query = (np.concatenate([b[s] for b in both]) for s in (0, 1))
    place = {i: k for k, i in enumerate(run.ids)}
    if precondition == "fisher":
        seen: dict[str, Any] = {}
        for b in run.batches:
            seen |= dict(zip(b["id"], gradients(run, replay.weights, b)[1], strict=True))
        every, start = np.stack(list(seen.values())), 0
        for size in replay.placed.sizes:
            part = slice(start, start + size)
            fisher = every[:, part].T @ every[:, part] / N
            damped = fisher + 0.1 * np.trace(fisher) / size * np.eye(size)
            phi[..., part] = phi[..., part] @ np.linalg.inv(damped) if np.trace(fisher) else 0.0
            start += size
    if precondition == "cosine":
        phi = phi / np.linalg.norm(g_query, axis=1)[:, None, None]
    wanted = np.zeros((N, 3, 4))
    for k in range(UPDATES - 9, UPDATES):
        state, after = replay.state_before(k), replay.last if k + 1 == UPDATES else replay.state_before(k + 1)
        g = gradients(run, state[0], run.batches[k])[1]
        if precondition == "adam":
            g = g / (np.sqrt(after[2].numpy() / (1 - 0.999 ** (k + 1))) + 1e-8)
        if precondition == "cosine":
            g = g / np.linalg.norm(g, axis=1, keepdims=True)
        for i, row in zip(run.batches[k]["id"], g, strict=True):
            wanted[place[i]] += run.rates[k] / 4 * np.einsum("d,qtd->qt", row, phi)
    np.testing.assert_allclose(result.sdi.values, wanted[..., 1:], rtol=0, atol=1e-9 * np.abs(wanted).max())
    np.testing.assert_allclose(result.tracin.values, wanted.sum(axis=2), rtol=0, atol=1e-9 * np.abs(wanted).max())


@pytest.mark.slow
def test_the_last_update_of_plain_sgd_is_the_derivative_itself() -> None:
    """Nothing bends a push of the last update, so there the cheap score is exact."""
    run = make_run("sgd")
    cheap = sdi.along_training(run, QUERY, checkpoints=None, window=1)
    exact = sdi.through_training(run, QUERY, window=1, probes=0)
    np.testing.assert_allclose(cheap.sdi.values, exact.sdi.values, rtol=0, atol=1e-14)
    longer = [sdi.along_training(run, QUERY, checkpoints=None), sdi.through_training(run, QUERY, probes=0)]
    assert not np.allclose(longer[0].sdi.values, longer[1].sdi.values, rtol=0.1)


@pytest.mark.parametrize("precondition", ["adam", "fisher", "cosine"])
def test_one_checkpoint_at_the_end_conserves(precondition: str) -> None:
    result = sdi.along_training(make_run("adamw"), QUERY, checkpoints=1, precondition=precondition)
    assert np.isfinite(result.tracin.values).all()
    assert np.abs(result.sdi.values).max() > 0


@pytest.mark.slow
def test_adam_is_noted_and_bad_input_refused() -> None:
    assert "Adam" in sdi.along_training(make_run("adam"), QUERY, checkpoints=1).notes[0]
    assert not [n for n in sdi.along_training(make_run("sgd"), QUERY, checkpoints=1).notes if "Adam" in n]
    for arguments, words in [
        ({"precondition": "adam"}, "needs a run trained by Adam"),
        ({"precondition": "kfac"}, "precondition must be one of"),
        ({"checkpoints": 0}, "checkpoints must be at least 1"),
        ({"damping": 0}, "damping must be a number above 0"),
        ({"m": 8}, "m is for precondition='fisher', got None"),
        ({"m": 0, "precondition": "fisher"}, "m must be at least 1"),
        ({"seed": -1}, "seed must be at least 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            sdi.along_training(make_run("sgd"), QUERY, **arguments)
