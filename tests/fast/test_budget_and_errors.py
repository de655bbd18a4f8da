"""The byte budget, recompute and exceptions change no number and leave the model as it was."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fast_cases import assert_near, features_of, leaving_as_it_came, row_norms, step_truth
from looped_models import BODY, D, Looped, make, make_xy, square_loss
from modules import Gated, Overwriting
from torch import Tensor, nn

from sdi import Loop, SketchMap
from sdi.errors import CoverageError
from sdi.fast import Featurizer, coverage


class Boom(Exception):
    pass


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("core", [lambda: nn.Linear(D, D), Gated])
def test_an_exception_in_the_middle_of_the_backward_pass_harms_nothing(core: Any, memory: str) -> None:
    model, batch = make(core()), make_xy()
    model.train()
    model.core.requires_grad_(False)
    calls = 0

    def explode(g: Tensor) -> None:
        raise Boom

    def loss(model: nn.Module, batch: Any) -> Tensor:
        y = model.read(batch["x"])
        for t in range(3):
            y = model.core(y)
            if t == 1 and y.requires_grad:
                nonlocal calls
                calls += 1
                y.register_hook(explode)
        return y.flatten(1).sum(dim=1)

    with pytest.raises(Boom):
        features_of(model, batch, loss, memory=memory, loop=Loop(body="core", step="core"))
    assert calls == 1
    clean = features_of(model, batch, memory=memory)
    assert np.isfinite(clean.values).all()


def big(n: int = 8) -> tuple[Looped, dict[str, Any]]:
    """A loop whose activations pass 1 MiB."""
    model = make(nn.Sequential(nn.Linear(D, 64), nn.GELU(), nn.Linear(64, D)), dtype=torch.float32, tau=4)
    return model, make_xy(n, dtype=torch.float32, length=128)


@pytest.mark.slow
def test_a_small_budget_switches_to_recompute_and_then_splits_with_the_same_results() -> None:
    model, batch = big()
    roomy = Featurizer(model, square_loss, loop=BODY)
    truth = roomy(batch)
    assert not roomy.memory.recompute
    tight = Featurizer(model, square_loss, loop=BODY, budget=1 << 20)
    with leaving_as_it_came(model):
        found = tight(batch)
    assert tight.memory.recompute
    assert found.ids == truth.ids == tuple("01234567")
    np.testing.assert_allclose(found.values, truth.values, rtol=1e-4, atol=1e-5 * np.abs(truth.values).max())
    model, batch = big(256)
    tiny = Featurizer(model, square_loss, loop=BODY, budget=1 << 20, audit="off")
    split = tiny(batch, ids=[f"x{i}" for i in range(256)])
    assert tiny.memory.rows is not None
    assert tiny.memory.rows < 256
    whole = Featurizer(model, square_loss, loop=BODY, memory="hooks", audit="off")(batch)
    assert split.ids == tuple(f"x{i}" for i in range(256))
    np.testing.assert_allclose(split.values, whole.values, rtol=1e-4, atol=1e-5 * np.abs(whole.values).max())


def test_a_split_batch_names_its_examples_by_their_place_in_the_whole() -> None:
    model, batch = big(256)
    tiny = Featurizer(model, square_loss, loop=BODY, budget=1 << 20, audit="off")
    assert tiny(batch).ids == tuple(map(str, range(256)))


@pytest.mark.slow
def test_hooks_and_recompute_agree_bit_for_bit() -> None:
    model, batch = big(2)
    sketch = SketchMap.draw({n: tuple(p.shape) for n, p in model.named_parameters() if n.startswith("core")}, m=16)
    for options in ({}, {"sketch": sketch}, {"sketch": sketch, "steps": False}):
        kept = features_of(model, batch, memory="hooks", **options)
        np.testing.assert_array_equal(features_of(model, batch, memory="recompute", **options).values, kept.values)


def test_a_module_that_overwrites_its_input_is_served_by_the_one_around_it_but_not_recomputed() -> None:
    model, batch = make(nn.Sequential(nn.Linear(D, D), Overwriting())), make_xy()
    loop = Loop(body="core.1", step="core")
    phi, _ = step_truth(model, square_loss, batch, 3)
    found = features_of(model, batch, loop=loop, memory="hooks")
    assert_near(found.values, phi["core.1.gate"], row_norms(found.values), "gate")
    (row,) = coverage(model, square_loss, batch, loop=loop)
    assert row.modules == ("core",)
    with pytest.raises(RuntimeError, match=r"input of the Overwriting was changed in place .* use memory='hooks'"):
        features_of(model, batch, loop=loop, memory="recompute")


def test_an_input_overwritten_after_the_call_is_refused() -> None:
    """The reader's input is changed later, in the model's own forward: nothing around it could be replayed."""

    class Later(Looped):
        def forward(self, x: Tensor, tau: int | None = None) -> Tensor:
            s = self.read(x)
            for _ in range(2):
                y = self.core(s)
                s.add_(1)
                s = y * 1
            return self.head(s)

    model = Later(Gated()).double()
    for core in (model, make(nn.Linear(D, D))):
        if core is not model:
            model.core = core.core
        with pytest.raises(CoverageError, match="a value that was changed in place afterwards"):
            features_of(model, make_xy(), memory="hooks", loop=Loop(body="core", step="core"))
