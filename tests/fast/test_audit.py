"""The self-audit finds what cannot be right, and nothing else; dropout and number types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fast_cases import assert_is_truth, assert_near, body_of, features_of, row_norms, step_truth
from looped_models import D, Looped, make, make_xy, square_loss
from modules import Attended, CustomRMSNorm, Embedded
from odd_models import unseen
from torch import Tensor, nn

from sdi import Loop
from sdi.errors import AuditError
from sdi.fast import Featurizer


class ByName(nn.Module):
    """Uses its module's weight directly as well."""

    def __init__(self) -> None:
        super().__init__()
        self.lin, self.by_name = nn.Linear(D, D), True

    def forward(self, s: Tensor) -> Tensor:
        return self.lin(torch.tanh(s)) + (s @ self.lin.weight if self.by_name else 0)


def loss_unseen(model: nn.Module, batch: Any) -> Tensor:
    """The loss uses a weight of the body as well, in a way that is not seen."""
    return square_loss(model, batch) + (batch["y"][:, 0] @ unseen(model.core.weight)[:3]).square().mean(1)


def shared_loss(model: nn.Module, batch: Any) -> Tensor:
    """Averaged over the batch: each example's value depends on how many there are."""
    losses = square_loss(model, batch)
    return losses / len(losses)


class Mixing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.mixes = nn.Linear(D, D), True

    def forward(self, s: Tensor) -> Tensor:
        s = torch.tanh(self.lin(s))
        return s - s.mean(dim=0) * self.mixes


class BatchNormed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.norm = nn.Linear(D, D), nn.BatchNorm1d(D)

    def forward(self, s: Tensor) -> Tensor:
        return self.norm(self.lin(s).transpose(1, 2)).transpose(1, 2)


MISBEHAVING = {
    "not seen": (
        lambda: nn.Linear(D, D),
        loss_unseen,
        make_xy(),
        r"gradient of 'core\.weight' differs from autograd's by 0\.\d+",
    ),
    "averaged": (
        lambda: nn.Linear(D, D),
        shared_loss,
        make_xy(),
        "example '2' without the others and in its batch differ .* divided by the size of the batch",
    ),
    "frequencies": (lambda: Embedded(scale_grad_by_freq=True), square_loss, make_xy(), "statistics of the batch"),
}


@pytest.mark.parametrize("name", MISBEHAVING)
def test_the_audit_finds_it_and_lets_it_through_when_off(name: str) -> None:
    core, loss, batch, message = MISBEHAVING[name]
    model = make(core())
    with pytest.raises(AuditError, match=message):
        features_of(model, batch, loss)
    assert np.isfinite(features_of(model, batch, loss, audit="off").values).all()


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_weight_that_is_called_and_used_by_name_is_served_by_the_module_around(memory: str) -> None:
    model, batch = make(ByName()), make_xy()
    assert_is_truth(features_of(model, batch, memory=memory), step_truth(model, square_loss, batch, 3))


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_weight_that_is_used_by_name_in_a_single_later_batch_is_noticed(memory: str) -> None:
    model, batch = make(ByName()), make_xy()
    model.core.by_name = False
    featurizer = Featurizer(model, square_loss, loop=body_of(model), memory=memory)
    for _ in range(2):
        featurizer(batch)
    model.core.by_name = True
    assert_is_truth(featurizer(batch), step_truth(model, square_loss, batch, 3))


@pytest.mark.parametrize("core", [Mixing, BatchNormed])
@pytest.mark.parametrize("audit", ["first", "every", "off"])
def test_a_model_that_mixes_examples_is_refused_even_without_an_audit(core: Any, audit: str) -> None:
    with pytest.raises(AuditError, match=r"follow the losses of more than one of the 3 examples.*batch statistics"):
        features_of(make(core()), make_xy(), audit=audit)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("audit", ["first", "off"])
def test_a_single_later_batch_that_mixes_examples_is_refused(audit: str, memory: str) -> None:
    model, batch = make(Mixing()), make_xy()
    model.core.mixes = False
    featurizer = Featurizer(model, square_loss, loop=body_of(model), audit=audit, memory=memory)
    for _ in range(4):
        featurizer(batch)
    model.core.mixes = True
    with pytest.raises(AuditError, match="mixes examples"):
        featurizer(batch)


def test_one_example_shows_nothing_so_the_first_batch_with_two_is_audited_as_well() -> None:
    model = make(Mixing())
    featurizer = Featurizer(model, square_loss, loop=body_of(model))
    featurizer(make_xy(1))
    with pytest.raises(AuditError, match="mixes examples"):
        featurizer(make_xy(2))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_that_are_nothing_but_rounding_pass(dtype: torch.dtype) -> None:
    """A softmax does not feel the bias of its keys."""
    model, batch = make(Attended(True), dtype=dtype), make_xy(dtype=dtype)
    features = features_of(model, batch)
    part = features.values[..., features.block("core.attn.in_proj_bias")][..., D : 2 * D]
    assert np.abs(part).max() < 1e-5 * np.abs(features.values).max()


class Routed(nn.Module):
    """Two experts; an example goes to one of them, by the sign of its first number."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, s: Tensor) -> Tensor:
        goes = (s[:, :1, :1] > 0).expand_as(s)
        if bool(goes.all()):
            return self.a(s)
        return torch.where(goes, self.a(s), self.b(s)) if bool(goes.any()) else self.b(s)


def test_an_example_alone_need_not_reach_every_parameter() -> None:
    model, batch = make(Routed(), tau=1), make_xy(8, seed=3)
    truth = step_truth(model, square_loss, batch, 1)
    assert not all(truth[0]["core.a.weight"].any(axis=(1, 2, 3)))
    assert_is_truth(features_of(model, batch), truth)


class Dropping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin, self.gate = nn.Linear(D, D), nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor) -> Tensor:
        return s + self.gate * F.dropout(torch.tanh(self.lin(s)), 0.5, self.training)  # a call no module shows


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize(
    "core", [Dropping, lambda: nn.Sequential(nn.MultiheadAttention(D, 2, dropout=0.5), nn.Dropout(0.5))]
)
def test_dropout_draws_the_same_numbers_when_a_module_is_run_again(core: Any, memory: str) -> None:
    class Attend(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, s: Tensor) -> Tensor:
            x = s.transpose(0, 1)
            return s + self.inner[1](self.inner[0](x, x, x, need_weights=False)[0].transpose(0, 1))

    inner = core()
    model, batch = make(Attend(inner) if isinstance(inner, nn.Sequential) else inner), make_xy()
    model.train()
    torch.manual_seed(4)
    features = features_of(model, batch, audit="off", memory=memory)
    truth = torch.autograd.grad(square_loss(model, batch).sum(), list(model.core.parameters()))
    flat = torch.cat([g.flatten() for g in truth]).numpy()[None]
    assert_near(features.g.sum(axis=0, keepdims=True), flat, row_norms(flat), "total", 1e-12)
    torch.manual_seed(5)
    with pytest.raises(AuditError, match="as dropout does, and the model is in training mode"):
        features_of(model, batch, memory=memory)


def test_running_statistics_are_put_back() -> None:
    model, batch = make(BatchNormed()), make_xy()
    for mode in (True, False):
        model.train(mode)
        model.core.norm.train()
        with pytest.raises(AuditError, match="mixes examples"):
            features_of(model, batch, audit="off")  # compares the buffers


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_half_precision_comes_out_finite_and_near(memory: str) -> None:
    def core() -> nn.Module:
        return nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.LayerNorm(D), CustomRMSNorm(), nn.RMSNorm(D))

    plain = features_of(make(core()), make_xy())
    model, batch = make(core(), dtype=torch.bfloat16), make_xy(dtype=torch.bfloat16)
    half = features_of(model, batch, memory=memory)
    assert half.values.dtype == np.float32
    assert_near(half.values, plain.values, row_norms(plain.values), "bfloat16", 0.05)
    model, batch = make(core(), dtype=torch.float32), make_xy(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = features_of(model, batch, memory=memory)
    assert mixed.values.dtype == np.float32
    assert_near(mixed.values, plain.values, row_norms(plain.values), "autocast", 0.05)
    single = features_of(model, batch, memory=memory)
    assert_near(single.values, plain.values, row_norms(plain.values), "single", 1e-5)


def test_sketches_of_half_precision_gradients_accumulate_in_single_precision() -> None:
    """A thousand equal tokens: bfloat16 would stop counting at 256."""
    model = Looped(nn.Linear(D, D), tau=1).to(torch.bfloat16)
    batch = {k: v[:, :1].expand(-1, 1024, -1).contiguous() for k, v in make_xy(1, dtype=torch.bfloat16).items()}

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return (model(batch["x"]) - batch["y"]).square().sum(dim=-1, dtype=torch.float32).sum(dim=1)

    one = {k: v[:, :1] for k, v in batch.items()}
    total = features_of(model, batch, loss, loop=Loop(body="core", step="core"), audit="off").values
    single = features_of(model, one, loss, loop=Loop(body="core", step="core"), audit="off").values
    assert_near(total, 1024 * single, row_norms(1024 * single), "sum", 1e-5)
