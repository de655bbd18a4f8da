"""The right step for every gradient, whatever the model's forward does."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fast_cases import assert_is_truth, assert_near, body_of, features_of, leaving_as_it_came, row_norms, step_truth
from looped_models import D, Looped, make, make_xy, square_loss
from modules import CustomRMSNorm, Gated
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sdi import Features, Loop
from sdi.errors import CoverageError
from sdi.fast import Featurizer, LoopedTransformer, coverage, featurize, token_cross_entropy
from sdi.inputs.looped_config import LoopedConfig

MEMORY = pytest.mark.parametrize("memory", ["hooks", "recompute"])


def core() -> nn.Module:
    return nn.Sequential(nn.Linear(D, D), nn.Tanh(), CustomRMSNorm(), nn.Linear(D, D))


@MEMORY
@pytest.mark.parametrize("detach", [1, 3])
def test_truncated_steps_are_zero_and_the_others_keep_their_labels(detach: int, memory: str) -> None:
    model, batch = make(core(), tau=4, detach=detach), make_xy()
    features = features_of(model, batch, memory=memory)
    assert_is_truth(features, step_truth(model, square_loss, batch, 4))
    assert not features.phi[:, :detach].any()
    assert features.phi[:, detach:].any(axis=(0, 2)).all()


@MEMORY
def test_warm_up_steps_without_a_graph_are_exactly_zero(memory: str) -> None:
    model, batch = make(core(), tau=4, no_grad=2), make_xy()
    features = features_of(model, batch, memory=memory)
    assert_is_truth(features, step_truth(model, square_loss, batch, 4))
    assert not features.phi[:, :2].any()
    assert features.phi[:, 2:].any(axis=(0, 2)).all()


def checkpointed(reentrant: bool) -> Callable[..., Tensor]:
    return lambda f, s: checkpoint(f, s, use_reentrant=reentrant)


class Inside(nn.Module):
    """A module that checkpoints its own parts, and has a bare parameter used within."""

    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.inner, self.gate, self.reentrant = core(), nn.Parameter(torch.ones(D)), reentrant

    def part(self, s: Tensor) -> Tensor:
        return torch.tanh(self.gate * self.inner(s))

    def forward(self, s: Tensor) -> Tensor:
        return s + (self.part(s) if self.reentrant is None else checkpoint(self.part, s, use_reentrant=self.reentrant))


class Slope(nn.Module):
    """A module that takes a gradient of its own, so that a backward pass goes on within the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)

    def forward(self, s: Tensor) -> Tensor:
        with torch.enable_grad():
            x = s.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.lin(x).square().sum(), x)
        return torch.tanh(self.lin(s)) + 0.1 * slope.detach()


@pytest.mark.slow
@MEMORY
@pytest.mark.parametrize("reentrant", [False, True])
def test_the_users_own_checkpointing_changes_nothing(reentrant: bool, memory: str) -> None:
    batch = make_xy()
    pairs = [
        (make(core()), make(core(), around=checkpointed(reentrant))),
        (make(Gated()), make(Gated(), around=checkpointed(reentrant))),
        (make(Inside(None)), make(Inside(reentrant))),
        (make(Slope()), make(Slope(), around=checkpointed(reentrant))),
    ]
    for plain, saving in pairs:
        truth = features_of(plain, batch, memory=memory)
        np.testing.assert_array_equal(features_of(saving, batch, memory=memory).values, truth.values)


def preference_loss(model: nn.Module, batch: dict[str, Tensor]) -> Tensor:
    """Two forward passes; the first one takes more steps."""
    chosen = square_loss(model, {"x": batch["x"], "y": batch["y"], "steps": 3})
    rejected = square_loss(model, {"x": batch["x2"], "y": batch["y"], "steps": 2})
    return -F.logsigmoid(chosen - rejected)


@MEMORY
def test_two_forward_passes_in_one_loss_add_up_step_by_step(memory: str) -> None:
    model, batch = make(core(), norm=nn.LayerNorm(D)), make_xy()
    batch["x2"] = make_xy(seed=9)["x"]
    with pytest.raises(
        CoverageError, match=r"calls the model again after 3 steps.* calls='restart'.* calls='continue'"
    ):
        features_of(model, batch, preference_loss, memory=memory)
    restart = replace(body_of(model), calls="restart")
    features = features_of(model, batch, preference_loss, memory=memory, loop=restart)
    assert_is_truth(features, step_truth(model, preference_loss, batch, 3))
    assert features.phi.shape[1] == 3
    on = features_of(model, batch, preference_loss, memory=memory, loop=replace(restart, calls="continue"))
    assert on.phi.shape[1] == 5
    folded = on.phi[:, :3] + np.pad(on.phi[:, 3:], ((0, 0), (0, 1), (0, 0)))
    assert_near(folded, features.phi, row_norms(features.values), "rounds", 1e-12)


class Injected(nn.Module):
    """inject, then core, six times."""

    def __init__(self) -> None:
        super().__init__()
        self.inject, self.core, self.head = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 1)

    def forward(self, x: Tensor) -> Tensor:
        s = x
        for _ in range(6):
            s = torch.tanh(self.core(self.inject(s) + x))
        return self.head(s).squeeze(-1)


def test_a_step_that_begins_with_the_second_module_is_refused_with_the_first() -> None:
    model, batch = Injected().double(), {"x": torch.randn(3, D, dtype=torch.float64)}

    def loss(model: Any, batch: Any) -> Tensor:
        return model(batch["x"]).square()

    for body in (["inject", "core"], ["core", "inject"]):
        with pytest.raises(CoverageError, match=r"'inject' is called 6 times.* did you mean step='inject'\?"):
            featurize(model, loss, batch, loop=Loop(body=body, step="core"))
        assert featurize(model, loss, batch, loop=Loop(body=body, step="inject")).outside is None


def test_parameters_that_training_does_not_move_are_left_out_unless_named() -> None:
    model, batch = Injected().double(), {"x": torch.randn(3, D, dtype=torch.float64)}

    def loss(model: Any, batch: Any) -> Tensor:
        return model(batch["x"]).square()

    def traced(*body: str) -> list[str]:
        return [b.name for b in featurize(model, loss, batch, loop=Loop(body=body, step="inject")).blocks]

    model.inject.bias.requires_grad_(False)
    assert traced("inject", "core") == ["inject.weight", "core.weight", "core.bias"]
    assert traced("inject", "inject.bias") == ["inject.weight", "inject.bias"]
    model.requires_grad_(False)
    assert traced("inject") == ["inject.weight", "inject.bias"]


@MEMORY
def test_calls_outside_the_loop_have_their_own_slot_and_count_in_the_total(memory: str) -> None:
    model, batch = make(core(), norm=nn.LayerNorm(D)), make_xy()
    features = features_of(model, batch, memory=memory)
    assert_is_truth(features, step_truth(model, square_loss, batch, 3))
    assert features.outside is not None
    assert not features.outside[:, features.block("core.0.weight")].any()
    summed = features_of(model, batch, memory=memory, steps=False)
    assert summed.outside is None
    assert_near(summed.g, features.g, row_norms(features.values), "total", 1e-13)
    outside = {row.parameter: row.outside for row in coverage(model, square_loss, batch, loop=body_of(model))}
    assert outside == {name: 2 if name.startswith("norm.") else 0 for name in outside}


@MEMORY
def test_without_an_end_the_last_step_lasts_until_the_model_ends(memory: str) -> None:
    model, batch = make(core(), norm=nn.LayerNorm(D)), make_xy()
    closed = features_of(model, batch, memory=memory)
    open_ = features_of(model, batch, memory=memory, loop=Loop(body=["core", "norm"], step="core"))
    assert closed.outside is not None
    assert open_.outside is not None
    assert_near(open_.phi[:, :2], closed.phi[:, :2], row_norms(closed.values), "earlier steps", 1e-14)
    assert_near(open_.g, closed.g, row_norms(closed.values), "total", 1e-13)
    late = open_.phi[:, 2] - closed.phi[:, 2]
    assert_near(late, closed.outside - open_.outside, row_norms(closed.values), "the coda's call", 1e-13)
    assert late[:, closed.block("norm.weight")].any()


def test_an_end_within_a_unit_is_respected_in_both_ways_to_run() -> None:
    """`tail` holds the end: its first part belongs to the last step, its second to none."""

    class Tail(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.stop, self.b = nn.Linear(D, D), nn.Identity(), nn.Linear(D, D)

        def forward(self, s: Tensor) -> Tensor:
            return self.b(self.stop(torch.tanh(self.a(s))))

    model, batch = make(core()), make_xy()
    model.head = nn.Sequential(Tail(), model.head).double()
    parts = [
        features_of(model, batch, loop=Loop(body=["head.0"], step="core", end="head.0.stop"), memory=memory)
        for memory in ("hooks", "recompute")
    ]
    for f in parts:
        assert f.outside is not None
        assert not f.outside[:, f.block("head.0.a.weight")].any()
        assert not f.phi[..., f.block("head.0.b.weight")].any()
    np.testing.assert_array_equal(parts[0].values, parts[1].values)
    np.testing.assert_array_equal(parts[0].outside, parts[1].outside)


def test_batches_with_other_numbers_of_steps_are_padded_when_put_together() -> None:
    model = make(core())
    featurizer = Featurizer(model, square_loss, loop=body_of(model))
    batches = [{**make_xy(n, seed=n), "steps": steps} for n, steps in ((2, 1), (3, 4))]
    with leaving_as_it_came(model):
        together = Features.concatenate([featurizer(batch) for batch in batches])
    assert together.phi.shape[:2] == (5, 4)
    assert together.tau.tolist() == [1, 1, 4, 4, 4]
    for rows, batch in ((slice(0, 2), batches[0]), (slice(2, 5), batches[1])):
        alone = step_truth(model, square_loss, batch, 4)[0]["core.0.weight"].reshape(len(batch["x"]), 4, -1)
        assert_near(together.phi[rows, :, : D * D], alone, row_norms(together.phi[rows]), "alone")


class Ragged(Looped):
    """Each example's state freezes after its own number of steps."""

    def forward(self, x: Tensor, tau: Any = None) -> Tensor:
        s = self.read(x)
        for t in range(int(tau.max())):
            s = torch.where((t < tau)[:, None, None], self.part(t, "core")(s), s)
        return self.head(s)


def test_a_tau_that_is_no_whole_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^tau must hold integers, got float32$"):
        features_of(make(nn.Linear(D, D)), {**make_xy(), "tau": torch.tensor([1.9, 2, 3])})


def test_examples_of_one_batch_keep_their_own_tau() -> None:
    model = Ragged(core()).double()
    batch = {**make_xy(), "tau": torch.tensor([2, 1, 3])}

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return square_loss(model, {**batch, "steps": batch["tau"]})

    features = features_of(model, batch, loss)
    assert features.tau.tolist() == [2, 1, 3]
    assert not features.phi[1, 1:].any()
    assert_is_truth(features, step_truth(model, loss, batch, 3))
    with pytest.raises(ValueError, match=r"tau must hold one number of steps from 1 to 3 .* got \[4, 1, 3\]"):
        features_of(model, {**batch, "tau": torch.tensor([4, 1, 3])}, lambda m, b: loss(m, {**b, "tau": b["tau"] - 1}))


@MEMORY
def test_a_model_may_itself_be_the_step(memory: str) -> None:
    model, batch = make(Gated()), make_xy()
    phi, _ = step_truth(model, square_loss, batch, 3)

    def loss(core: nn.Module, batch: Any) -> Tensor:
        s = model.read(batch["x"])
        for _ in range(3):
            s = core(s)
        return (model.head(s) - batch["y"]).square().flatten(1).mean(dim=1)

    features = features_of(model.core, batch, loss, loop=Loop(body=model.core, step=model.core), memory=memory)
    assert_is_truth(
        features,
        (
            {k.removeprefix("core."): v for k, v in phi.items()},
            {b.name: np.zeros((3, *b.shape)) for b in features.blocks},
        ),
    )


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["auto", "hooks", "recompute"])
def test_a_pass_leaves_no_graph_behind(memory: str) -> None:
    """Steps after the read-out are never pulled back, so nothing frees what they saved but their own end."""
    torch.manual_seed(0)
    case = LoopedConfig.parity(d=16, heads=2, tau=3, length=40)
    model = LoopedTransformer.init(case)
    batch = {"tokens": torch.randint(0, 2, (2, 40)), "targets": torch.randint(0, 2, (2, 40)), "readout": [2, 2]}
    featurizer = Featurizer(model, token_cross_entropy, loop=case.loop(), memory=memory, audit="off")
    alive = []
    for _ in range(3):
        featurizer(batch)
        gc.collect()
        alive.append(sum(issubclass(type(x), Tensor) for x in gc.get_objects()))
    assert alive[2] <= alive[1]
