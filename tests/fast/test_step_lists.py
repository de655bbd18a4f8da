"""step=[...]: distinct modules that share parameters are one loop; the layers of a model may be its steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from cli_cases import call, call_json, edit, made, project
from torch import nn

import sdi
import sdi.fast
from sdi.inputs.fingerprint import loop_names

__all__ = ["made", "project"]
D, TAU = 5, 3


class Tied(nn.Module):
    """Layers of their own between blocks that are distinct and share their parameters (as Zamba's)."""

    def __init__(self, distinct: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.own = nn.ModuleList(nn.Linear(D, D) for _ in range(TAU))
        blocks = [nn.Sequential(nn.Linear(D, D), nn.Tanh(), nn.LayerNorm(D)) for _ in range(TAU)]
        for block in blocks[1:]:
            for k in (0, 2):
                block[k].weight, block[k].bias = blocks[0][k].weight, blocks[0][k].bias
        self.shared = nn.ModuleList(blocks if distinct else blocks[:1])
        self.double()

    def forward(self, x: Any) -> Any:
        for k, own in enumerate(self.own):
            x = own(x) + self.shared[k % len(self.shared)](x)
        return x


def loss(model: Any, batch: Any) -> Any:
    return model(batch["x"]).square().sum(dim=(1, 2))


BATCH = {"x": torch.randn(4, 3, D, dtype=torch.float64, generator=torch.Generator().manual_seed(1))}
NAMES = [f"shared.{k}" for k in range(TAU)]


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_steps_over_tied_modules_are_those_of_one_module(memory: str) -> None:
    many = sdi.fast.featurize(Tied(True), loss, BATCH, loop=sdi.Loop(["shared.0"], NAMES), memory=memory)
    one = sdi.fast.featurize(Tied(False), loss, BATCH, loop=sdi.Loop(["shared.0"], "shared.0"), memory=memory)
    assert many.phi.shape[1] == TAU
    assert [b.name for b in many.blocks] == [b.name for b in one.blocks]
    np.testing.assert_allclose(many.phi, one.phi, rtol=1e-12, atol=1e-13)
    assert np.linalg.norm(many.phi, axis=-1).min() > 0


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_layers_as_steps_have_their_own_gradient_at_their_own_step(memory: str) -> None:
    model = Tied(False)
    names = [f"own.{k}" for k in range(TAU)]
    found = sdi.fast.featurize(model, loss, BATCH, loop=sdi.Loop(names, names), memory=memory)
    value = loss(model, {"x": BATCH["x"][:1]})[0]
    for k, name in enumerate(names):
        (grad,) = torch.autograd.grad(value, model.own[k].weight, retain_graph=True)
        part = found.phi[0, :, found.block(f"{name}.weight")]
        np.testing.assert_allclose(part[k], grad.flatten().numpy(), rtol=1e-12, atol=1e-13)
        assert not part[[t for t in range(TAU) if t != k]].any()


def test_modules_may_stand_in_the_list_and_one_is_as_good_as_itself() -> None:
    model = Tied(True)
    loop = sdi.Loop(["shared.0"], list(model.shared))
    assert loop_names(model, loop)["step"] == NAMES
    by_name = sdi.fast.featurize(model, loss, BATCH, loop=sdi.Loop(["shared.0"], NAMES))
    np.testing.assert_array_equal(sdi.fast.featurize(model, loss, BATCH, loop=loop).phi, by_name.phi)
    assert sdi.Loop("core", ["core"]) == sdi.Loop("core", "core")
    twice = sdi.fast.featurize(model, loss, BATCH, loop=sdi.Loop(["shared.0"], [*NAMES, "shared.1"]))
    assert twice.phi.shape[1] == TAU


@pytest.mark.parametrize("bad", [[], ["a", ""], [None]])
def test_a_list_that_names_nothing_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match=r"^step must name the module whose call begins a step, got "):
        sdi.Loop("core", bad)


def test_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^step module 'shared.7' is not in the model"):
        sdi.fast.featurize(Tied(True), loss, BATCH, loop=sdi.Loop(["shared.0"], ["shared.0", "shared.7"]))


@pytest.mark.slow
def test_a_config_may_hold_a_list_of_steps(project: Any) -> None:
    config = edit(project, step=["core", "head"])
    said = call_json("run", config)
    assert said["sizes"]["step"] == 5
    assert call_json("run", project / "runs/first/run.toml")["made"] == 0
    assert "step must be" in call("run", edit(project, step=3), code=2).stderr
