"""The derivative through training of models made of other modules, against central differences of real retraining."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from looped_models import BODY, LOOP, D, make, make_xy, square_loss
from modules import Attended, CustomRMSNorm, Embedded, Gated
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

import sdi

H = 1e-4


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRU(D, D, batch_first=True)

    def forward(self, s: Tensor) -> Tensor:
        return s + self.cell(s)[0]


class Cube(torch.autograd.Function):
    """A function of the user's own, which knows no batches of gradients."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


class Once(Cube):
    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * grad


class Own(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.lin, self.function = nn.Linear(D, D), function

    def forward(self, s: Tensor) -> Tensor:
        return s + 0.1 * self.function.apply(torch.tanh(self.lin(s)))


def run_of(core: Callable[[], nn.Module], **options: Any) -> sdi.TrainingRun:
    def batch(rows: list[int]) -> dict[str, Any]:
        every = make_xy(5)
        return {"id": [f"t{i}" for i in rows], "x": every["x"][rows], "y": every["y"][rows]}

    return sdi.TrainingRun(
        lambda: make(core(), tau=3, **options), square_loss, LOOP if "norm" in options else BODY,
        [batch([0, 1, 2]), batch([3, 1]), batch([4, 0])], sdi.SGD(momentum=0.9), 0.05,
    )  # fmt: skip


CASES: dict[str, Callable[[], sdi.TrainingRun]] = {
    "linear with a norm outside, too": lambda: run_of(lambda: nn.Linear(D, D), norm=nn.LayerNorm(D)),
    "attention": lambda: run_of(lambda: Attended(True)),
    "bare parameters": lambda: run_of(Gated),
    "kinks": lambda: run_of(lambda: nn.Sequential(nn.Linear(D, 9), nn.ReLU(), nn.Linear(9, D))),
    "own norm": lambda: run_of(CustomRMSNorm),
    "embedding": lambda: run_of(Embedded),
    "recurrent": lambda: run_of(Recurrent),
    "own function": lambda: run_of(lambda: Own(Cube)),
    "checkpointed": lambda: run_of(
        lambda: Gated(), around=lambda core, s: checkpoint(core, s, use_reentrant=False)
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_any_module_is_differentiated_through_training(case: str) -> None:
    run = CASES[case]()
    query = [{"id": ["q0", "q1"], **make_xy(2, seed=5)}]
    result = sdi.through_training(run, query, probes=0)
    changes = [sdi.Change({i: 1 + sign * H}) for i in run.ids for sign in (1, -1)]
    effects = sdi.retrain(run, query, changes)
    whole = (effects.by_slot[::2] - effects.by_slot[1::2]) / (2 * H)
    size = np.abs(whole).max()
    np.testing.assert_allclose(-result.sdi.values, whole[..., 1:], rtol=0, atol=1e-5 * size)
    np.testing.assert_allclose(-result.outside.values, whole[..., 0], rtol=0, atol=1e-5 * size)


@pytest.mark.slow
@pytest.mark.parametrize(
    "run",
    [lambda: run_of(lambda: Own(Once)), lambda: run_of(lambda: nn.Linear(D, D), detach=1),
     lambda: run_of(lambda: nn.Linear(D, D), no_grad=1)],
    ids=["once differentiable", "truncated", "no_grad"],
)  # fmt: skip
def test_what_cannot_be_differentiated_twice_is_refused(run: Callable[[], sdi.TrainingRun]) -> None:
    """Autograd itself answers zeros there; the numbers would be wrong without a word."""
    query = [{"id": ["q0", "q1"], **make_xy(2, seed=5)}]
    with pytest.raises(sdi.AuditError, match=r"part of its graph is cut|cannot be differentiated"):
        sdi.through_training(run(), query, probes=0)
    assert sdi.retrain(run(), query, [["t0"]]).runs == 1


@pytest.mark.slow
@pytest.mark.parametrize("core", [Gated, lambda: nn.Sequential(nn.Linear(D, 16), nn.ReLU(), nn.Linear(16, D))])
def test_rounding_and_kinks_are_not_taken_for_a_cut_graph(core: Callable[[], nn.Module]) -> None:
    many = make_xy(32, dtype=torch.float32)
    batch = {"id": [f"t{i}" for i in range(32)], **many}
    query = [{"id": ["q0", "q1"], **make_xy(2, seed=5, dtype=torch.float32)}]
    for seed in range(4):
        run = sdi.TrainingRun(
            lambda seed=seed: make(core(), seed=seed, dtype=torch.float32), square_loss, BODY, [batch] * 3,
            sdi.SGD(momentum=0.9), 1e-4,
        )  # fmt: skip
        assert np.isfinite(sdi.through_training(run, query, probes=0).tracin.values).all()
