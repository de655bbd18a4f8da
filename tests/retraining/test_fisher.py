"""Preconditioning by the Fisher matrix: Kronecker products and sketches are what they say, and equal it where exact."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from training_cases import QUERY, make_net, make_run, rows

import sdi
from sdi.backends import room

training = room("fast.training")
kronecker, preconditioned = room("fast.training.kronecker"), room("fast.training.preconditioned")
LINEAR = sdi.Loop(body=["core"], step="core")


class OneCall(nn.Module):
    """One linear map, called once, whose outputs have the same gradient for all examples."""

    def __init__(self) -> None:
        super().__init__()
        self.core = nn.Linear(3, 4).double()

    def forward(self, batch: Any) -> Tensor:
        return self.core(batch["x"]) @ torch.arange(1.0, 5.0, dtype=torch.float64)


class Tied(nn.Module):
    """One weight in two places: a linear map that is called, and a product that is none."""

    def __init__(self) -> None:
        super().__init__()
        self.core, self.other = nn.Linear(3, 3).double(), nn.Linear(3, 3).double()
        self.both = True

    def forward(self, batch: Any) -> Tensor:
        x = torch.tanh(self.core(batch["x"]))
        x = x @ self.core.weight if self.both else x
        return self.other(x).square().sum(dim=1)


def loss(model: Any, batch: Any) -> Tensor:
    return model(batch)


def run_of(model: nn.Module) -> sdi.TrainingRun:
    batches = [rows(range(k, k + 3)) for k in (0, 2, 4)]
    return sdi.TrainingRun(model, loss, LINEAR, batches, sdi.SGD(), 0.01)


def scores(run: sdi.TrainingRun, precondition: str, **options: Any) -> np.ndarray:
    result = sdi.along_training(run, QUERY, checkpoints=1, precondition=precondition, **options)
    return np.concatenate([result.sdi.values, result.outside.values[..., None]], axis=2)


def test_one_call_with_alike_output_gradients_has_an_exact_kronecker_product() -> None:
    torch.manual_seed(0)
    run = run_of(OneCall())
    exact = scores(run, "fisher")
    np.testing.assert_allclose(scores(run, "kronecker"), exact, rtol=0, atol=1e-12 * np.abs(exact).max())
    assert not np.allclose(scores(run, "kronecker", damping=0.2), exact, rtol=0.01)


def test_factors_are_means_over_tokens_and_steps_of_those_that_reach_a_loss() -> None:
    """On batches that meet examples twice and whose examples take different numbers of steps."""
    batches = [rows(chosen, ragged=True) for chosen in ([0, 1, 2, 3], [2, 3, 4, 5])]
    run = make_run("sgd", updates=2, batches=batches)
    replay = training.Replay(run)
    found = kronecker.kronecker_factors(replay, replay.weights)
    model = make_net()
    with torch.no_grad():
        for p, part in zip(model.parameters(), replay.placed.named(replay.weights).values(), strict=True):
            p.copy_(part)
    batch = rows(range(6), ragged=True)
    e, s = model.read(batch["x"]).detach(), torch.zeros(6, 4, dtype=torch.float64)
    inputs, outputs, states = [], [], []
    for _ in range(3):
        inputs.append(s)
        outputs.append(model.core(s).detach().requires_grad_() if not states else model.core(s))
        outputs[-1].retain_grad()
        s = torch.tanh(outputs[-1] + e)
        states.append(s)
    out = torch.where((batch["tau"] == 2)[:, None], states[1], states[2])
    (model.head(out).squeeze(-1) - batch["y"]).square().sum().backward()
    a, delta = torch.stack(inputs, 1).detach(), torch.stack([y.grad for y in outputs], 1)
    reached = torch.arange(3)[None] < batch["tau"][:, None]  # 15 of 18 rows
    core = found["core.weight"]
    assert core.rows == int(reached.sum()) == 15
    torch.testing.assert_close(core.S, torch.einsum("nto,ntp->op", delta, delta), rtol=0, atol=1e-14)
    torch.testing.assert_close(core.A, torch.einsum("nti,ntj->ij", a[reached][None], a[reached][None]))
    S, A = (core.S / 6).numpy(), (core.A / 15).numpy()
    F = np.kron(S, A)
    v = np.random.default_rng(0).normal(size=(2, 16))
    wanted = np.linalg.solve(F + 0.1 * np.trace(F) / 16 * np.eye(16), v.T).T
    np.testing.assert_allclose(core.inverse(6, 0.1)(torch.from_numpy(v)).numpy(), wanted, rtol=1e-9)


def test_a_weight_that_is_not_only_called_takes_the_whole_fisher_matrix() -> None:
    torch.manual_seed(0)
    model = Tied()
    names = {both: set() for both in (True, False)}
    for both in names:
        model.both = both
        replay = training.Replay(run_of(model))
        names[both] = set(kronecker.kronecker_factors(replay, replay.weights))
    assert names == {True: {"other.weight"}, False: {"core.weight", "other.weight"}}
    model.both = True
    model.other.requires_grad_(False)
    with pytest.raises(ValueError, match="needs a linear map whose weight is trained"):
        scores(run_of(model), "kronecker")


@pytest.mark.slow
def test_sketched_scores_are_their_definition_and_whole_where_a_tensor_fits() -> None:
    run, m = make_run("adam"), 7
    whole = sdi.along_training(run, QUERY, checkpoints=None, precondition="fisher")
    kept = sdi.along_training(run, QUERY, checkpoints=None, precondition="fisher", m=16)
    np.testing.assert_allclose(kept.sdi.values, whole.sdi.values, rtol=0, atol=1e-9 * np.abs(whole.sdi.values).max())
    assert not kept.stderr.values.any()
    assert not whole.stderr.values.any()
    replay = training.Replay(run)
    placed = replay.placed
    map = sdi.SketchMap.draw({n: (d,) for n, d in zip(placed.shapes, placed.sizes, strict=True)}, m, seed=3)
    found = training.query_gradients(run, placed, replay.weights, [sdi.inputs.batches.name_examples(b) for b in QUERY])
    examples = room("fast.training.example_gradients")

    def sketched(x: Tensor) -> np.ndarray:
        parts = torch.split(x, placed.sizes, dim=-1)
        return map.apply({name: p.numpy() for name, p in zip(placed.shapes, parts, strict=True)})

    G = np.zeros((len(run.ids), map.size))
    for places, g in examples.each_once(replay, replay.weights):
        G[places] = sketched(g)
    phi, total = sketched(found.phi), np.zeros_like(G)
    for k, state in replay.backwards():
        total[run.rows(k)] += run.rates[k] / 4 * sketched(examples.example_gradients(replay, k, state[0]))
    wanted, variance = np.zeros((12, 3, 4)), np.zeros((12, 3, 4))
    for block, d in zip(map.blocks, placed.sizes, strict=True):
        at = slice(block.start, block.stop)
        F = G[:, at].T @ G[:, at] / 12
        level = 0.1 * np.trace(F) / d
        if level:
            P = np.linalg.inv(F + level * np.eye(len(F)))
            wanted += np.einsum("nd,de,qte->nqt", total[:, at], P, phi[..., at])
            sizes = np.square(total[:, at] @ P).sum(-1)[:, None, None] * np.square(phi[..., at] @ P).sum(-1)
            variance += level**2 * sizes * (2 / m if d > m else 0)
    result = sdi.along_training(run, QUERY, checkpoints=None, precondition="fisher", m=m, seed=3)
    np.testing.assert_allclose(result.sdi.values, wanted[..., 1:], rtol=0, atol=1e-9 * np.abs(wanted).max())
    np.testing.assert_allclose(result.stderr.values, np.sqrt(variance[..., 1:]), rtol=1e-7)
    assert (result.tracin_stderr.values > 0).all()


@pytest.mark.slow
def test_standard_errors_of_sketched_scores_cover_their_errors() -> None:
    """Over 60 sketches of 5 gradients, of 300 numbers each, in 120: root mean squares of error and standard error."""
    rng = np.random.default_rng(0)
    G, phi = torch.from_numpy(rng.normal(size=(5, 300))), torch.from_numpy(rng.normal(size=(1, 3, 300)))
    phi += G[0]
    placed: Any = SimpleNamespace(sizes=[300], shapes={"w": (300,)})
    fisher = preconditioned.Fisher.of(G, 300, 0.1)
    exact = torch.einsum("nd,qtd->nqt", G, fisher.inverse_times(phi[0])[None])
    errors, claimed, claimed_whole = [], [], []
    for seed in range(60):
        sketch = preconditioned.Sketched(placed, 120, seed)
        made, variance, whole = sketch.scores(sketch(G), sketch(G), sketch(phi[0])[None], 0.1)
        errors.append(made - exact)
        claimed.append(variance)
        claimed_whole.append(whole)
    off = torch.stack(errors)
    ratio = off.square().mean().sqrt() / torch.stack(claimed).mean().sqrt()
    of_sums = off.sum(dim=3).square().mean().sqrt() / torch.stack(claimed_whole).mean().sqrt()
    assert 0.5 < float(ratio) < 1.1, float(ratio)  # the bound is 2 / m, of which orthogonal vectors take half
    assert 0.5 < float(of_sums) < 1.1, float(of_sums)
