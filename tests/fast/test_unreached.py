"""A parameter that no example reaches has zeros and a note; one that only we do not reach is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from odd_models import is_truth, unseen
from torch import nn

import sdi
import sdi.fast
from sdi import lm

D = 4


class Core(nn.Module):
    """Uses its expert as `how` says; `none` of the ways is a call that a loss depends on."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.lin, self.expert, self.how = nn.Linear(D, D), nn.Linear(D, D), how

    def forward(self, x: Any, asks: Any) -> Any:
        y = torch.tanh(self.lin(x))
        if self.how == "without effect":
            self.expert(x)
        if self.how == "by forward":
            y = y + self.expert.forward(x)
        if self.how == "not seen":
            y = y + x @ unseen(self.expert.weight) + unseen(self.expert.bias)
        if self.how == "some ask" and bool(asks.any()):
            y = y + self.expert(x) * asks[:, None]
        return y


class Net(nn.Module):
    def __init__(self, how: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.core, self.spare = Core(how), nn.Linear(D, D)
        self.double()

    def forward(self, x: Any, asks: Any) -> Any:
        for _ in range(3):
            x = self.core(x, asks)
        return x


def loss(model: Any, batch: Any) -> Any:
    return model(batch["x"], batch["asks"]).square().sum(-1)


def batch(*asks: float) -> dict[str, Any]:
    rng = torch.Generator().manual_seed(len(asks))
    return {"x": torch.randn(len(asks), D, dtype=torch.float64, generator=rng), "asks": torch.tensor(asks).double()}


LOOP = sdi.Loop(["core", "spare"], "core")
NONE = batch(0, 0, 0)


@pytest.mark.slow
@pytest.mark.parametrize("audit", ["first", "every", "off"])
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("how", ["never called", "without effect", "some ask"])
def test_what_no_example_reaches_is_zero(how: str, memory: str, audit: str) -> None:
    found = sdi.fast.featurize(Net(how), loss, NONE, loop=LOOP, memory=memory, audit=audit)
    alone = sdi.fast.featurize(Net(how), loss, NONE, loop=sdi.Loop("core.lin", "core"), memory=memory)
    for name in ("core.lin.weight", "core.lin.bias"):
        np.testing.assert_allclose(
            found.phi[..., found.block(name)], alone.phi[..., alone.block(name)], rtol=1e-12, atol=1e-15
        )
    for name in ("core.expert.weight", "core.expert.bias", "spare.weight", "spare.bias"):
        assert not found.phi[..., found.block(name)].any()


@pytest.mark.parametrize("audit", ["first", "off"])
def test_what_a_later_batch_reaches_gets_its_gradient(audit: str) -> None:
    model = Net("some ask")
    make = sdi.fast.Featurizer(model, loss, loop=LOOP, audit=audit)
    block = make(NONE).block("core.expert.weight")
    later = make(batch(0, 2))
    value = loss(model, batch(0, 2))[1]
    (wanted,) = torch.autograd.grad(value, model.core.expert.weight)
    np.testing.assert_allclose(later.g[1, block], wanted.flatten().numpy(), rtol=1e-10)
    assert not later.g[0, block].any()


@pytest.mark.parametrize("audit", ["first", "off"])
def test_a_module_called_by_its_forward_is_followed_by_name(audit: str) -> None:
    loop, model = sdi.Loop(["core.lin", "core.expert"], "core.lin"), Net("by forward")
    is_truth(sdi.fast.featurize(model, loss, NONE, loop=loop, audit=audit), model, NONE, loss)


@pytest.mark.parametrize("audit", ["first", "off"])
def test_what_only_we_do_not_reach_is_refused(audit: str) -> None:
    loop = sdi.Loop(["core.lin", "core.expert"], "core.lin")  # of which one part is reached
    with pytest.raises(sdi.CoverageError, match=r"'core\.expert.* no operation was seen to take it"):
        sdi.fast.featurize(Net("not seen"), loss, NONE, loop=loop, audit=audit)


def test_a_body_that_nothing_reaches_is_refused() -> None:
    with pytest.raises(sdi.CoverageError, match="spare"):
        sdi.fast.featurize(Net("never called"), loss, NONE, loop=sdi.Loop("spare", "core"))


def test_the_result_says_so(tmp_path: Path) -> None:
    model = Net("never called")
    lm.save_checkpoint(tmp_path / "a.safetensors", model, 0.5)
    result = sdi.attribute(
        model, loss=loss, loop=LOOP, checkpoints=tmp_path / "a.safetensors", train=[NONE], query=[batch(0, 0)], m=8
    )
    names = "'core.expert.weight', 'core.expert.bias', 'spare.weight', 'spare.bias'"
    assert f"no example's gradient reaches {names}: zeros stand for it" in result.notes
