"""A loop within a loop: the pair of cycle and step that a gradient belongs to is fixed when the step begins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from fast_cases import assert_near, example, row_norms
from looped_models import make_xy
from torch import Tensor, nn
from torch.func import functional_call

import sdi
from sdi import CoverageError, Loop, lm
from sdi.fast import Featurizer

D, INNER = 4, 3
Copies = dict[tuple[str, int, int], dict[str, Tensor]]  # by module, cycle and step


class Nested(nn.Module):
    """`lengths[c]` steps of `low` in cycle c, then `high`. `copies` untie their weights."""

    def __init__(self) -> None:
        super().__init__()
        self.low, self.high, self.head = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 3)
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in self.parameters():
                p.normal_(0, 0.5, generator=generator)
        self.double()
        self.copies: Copies | None = None

    def apply_at(self, name: str, cycle: int, step: int, h: Tensor) -> Tensor:
        module = getattr(self, name)
        if self.copies is None:
            return module(h)
        own = {k: p.detach().clone().requires_grad_() for k, p in module.named_parameters()}
        self.copies[name, cycle, step] = own
        return functional_call(module, own, (h,))

    def forward(self, x: Tensor, lengths: list[int], first: int = 0) -> Tensor:
        slow = torch.zeros_like(x)
        for cycle, length in enumerate(lengths, first):
            fast = torch.zeros_like(x)
            for step in range(length):
                fast = torch.tanh(self.apply_at("low", cycle, step, fast + x + slow))
            slow = torch.tanh(self.apply_at("high", cycle, length - 1, slow + fast))
        return self.head(slow)


def loss(model: Nested, batch: Any) -> Tensor:
    return model(batch["x"], batch["lengths"][0].tolist()).square().flatten(1).mean(dim=1)


def rounds(model: Nested, batch: Any) -> Tensor:
    """The loss holds the outer loop: each call of the model is a cycle."""
    total, x = 0, batch["x"]
    for cycle, length in enumerate(batch["lengths"][0].tolist()):
        y = model(x, [length], cycle)
        total = total + y.square().flatten(1).mean(dim=1)
        x = x + y.sum(dim=-1, keepdim=True)
    return total


def batch_of(lengths: list[int], n: int = 3) -> dict[str, Any]:
    return {"x": make_xy(n)["x"], "lengths": torch.tensor([lengths] * n)}


def truth(model: Nested, value_of: Any, batch: Any, names: list[str], cycles: int) -> np.ndarray:
    """(n, cycles, INNER, D), each example alone, a copy of the weights for every pair."""
    out = []
    for i in range(len(batch["x"])):
        model.copies = {}
        try:
            value = value_of(model, example(batch, i)).sum()
            copies = model.copies
        finally:
            model.copies = None
        one = np.zeros((cycles, INNER, sum(model.get_parameter(name).numel() for name in names)))
        for (module, cycle, step), own in copies.items():
            grads = torch.autograd.grad(value, list(own.values()), retain_graph=True)
            at = 0
            for name in names:
                size = model.get_parameter(name).numel()
                for local, g in zip(own, grads, strict=True):
                    if name == f"{module}.{local}":
                        one[cycle, step, at : at + size] = g.flatten().numpy()
                at += size
        out.append(one)
    return np.stack(out)


LOOPS = {
    "a module": (loss, Loop(["low", "high"], "low", cycle="high", inner=INNER)),
    "the model": (rounds, Loop(["low", "high"], "low", calls="continue", inner=INNER)),
}


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("kind", LOOPS)
def test_a_step_of_a_cycle_has_its_place_whatever_the_cycles_before_took(kind: str, memory: str) -> None:
    value_of, loop = LOOPS[kind]
    model = Nested()
    run = Featurizer(model, value_of, loop=loop, memory=memory)
    for lengths in ([3, 3], [1, 3], [2, 1, 2]):
        batch = batch_of(lengths)
        found = run(batch)
        phi = truth(model, value_of, batch, [b.name for b in found.blocks], len(lengths)).reshape(found.values.shape)
        assert_near(found.values, phi, row_norms(phi), f"{lengths}")
        assert found.outside is None


def test_a_cycle_that_is_longer_than_inner_is_refused() -> None:
    with pytest.raises(CoverageError, match=r"cycle 2 of the outer loop takes more than Loop\(inner=3\) steps"):
        Featurizer(Nested(), loss, loop=LOOPS["a module"][1])(batch_of([2, 4]))


@pytest.mark.slow
def test_a_result_has_an_axis_for_cycles_and_one_for_steps(tmp_path: Any) -> None:
    model = Nested()
    lm.save_checkpoint(tmp_path / "a.safetensors", model, 0.5)
    result = sdi.attribute(
        model, loss=loss, loop=LOOPS["a module"][1], checkpoints=tmp_path / "a.safetensors", m=None, spread=False,
        train=[batch_of([2, 3])], query=[{**batch_of([1, 2]), "id": ["a", "b", "c"]}], store=tmp_path / "store",
    )  # fmt: skip
    pairs = result.nested()
    assert pairs.dims == ("train", "query", "cycle", "step")
    assert pairs.shape == (3, 3, 2, INNER)
    np.testing.assert_allclose(pairs.sum(["cycle", "step"]), result.tracin, rtol=1e-5)
    absent = (pairs == 0).all(["train", "query"])
    np.testing.assert_array_equal(absent, [[False, True, True], [False, False, True]])
    with pytest.raises(ValueError, match=r"inner must be given: the loop of this result has no Loop\(inner"):
        sdi.Result(result.mode, result.labels, result.arrays, {}).nested()
