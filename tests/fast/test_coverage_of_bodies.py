"""Which calls are covered: of shared and unpacked modules, single parameters, under autocast; and the table."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from fast_cases import assert_is_truth, assert_near, body_of, features_of, row_norms, step_truth
from looped_models import D, make, make_xy, square_loss
from modules import CustomRMSNorm, Gated, Shared, StepEmbedded, symmetric, through
from torch import Tensor, nn

from sdi import Loop
from sdi.fast import coverage


def test_a_call_without_a_batch_axis_is_served_by_the_module_around_it() -> None:
    model, batch = make(StepEmbedded()), make_xy()
    assert_is_truth(features_of(model, batch), step_truth(model, square_loss, batch, 3))
    assert {row.route for row in coverage(model, square_loss, batch, loop=body_of(model))} == {"replay"}


def test_a_shared_module_is_followed_to_every_place_where_it_stands() -> None:
    linear = symmetric()
    model, batch = make(nn.Sequential(through(linear), through(linear, torch.tanh))), make_xy()
    assert_is_truth(features_of(model, batch), step_truth(model, square_loss, batch, 3))
    rows = {row.parameter.rpartition(".")[2]: row for row in coverage(model, square_loss, batch, loop=body_of(model))}
    assert (rows["bias"].modules, rows["bias"].calls) == (("core.0.inner",), 6)
    assert (rows["original"].modules, rows["original"].calls) == (("core.0.inner",), 6)


def test_the_table_names_shape_route_modules_calls_and_calls_outside() -> None:
    model, batch = make(Gated(), norm=nn.LayerNorm(D)), make_xy()
    table = coverage(model, square_loss, batch, loop=body_of(model))
    rows = {row.parameter: row for row in table}
    assert table.steps == 3
    assert len(table) == 7
    assert rows["core.gate"] == ("core.gate", (D,), "replay", "keep", ("core",), 3, 0)
    assert rows["core.scalar"].shape == ()
    assert rows["norm.weight"] == ("norm.weight", (D,), "norm", "keep", ("norm",), 5, 2)
    lines = str(table).splitlines()
    assert lines[0].split() == ["parameter", "shape", "route", "sketch", "calls", "outside"]
    assert [line.split()[0] for line in lines[1:-1]] == list(rows)
    assert lines[-1] == "7 parameters, 3 steps"


def test_a_body_of_single_parameters_is_followed_and_a_tied_name_is_one_parameter() -> None:
    model, batch = make(Shared(False)), make_xy()
    phi, _ = step_truth(model, square_loss, batch, 3)
    only = features_of(model, batch, loop=Loop(body=["core.b.weight"], step="core"))
    assert [b.name for b in only.blocks] == ["core.a.weight"]
    assert_near(only.values, phi["core.a.weight"].reshape(3, 3, -1), row_norms(only.values), "tied")
    by_module = features_of(model, batch, loop=Loop(body=[model.core.a], step=model.core))
    assert [b.name for b in by_module.blocks] == ["core.a.weight", "core.a.bias"]
    np.testing.assert_array_equal(by_module.values[..., : D * D], only.values)


def test_a_foreign_tensor_that_requires_a_gradient_prunes_nothing() -> None:
    """A leaf of the user's own in the graph must not hide body calls from the backward pass."""
    model, batch = make(nn.Sequential(nn.Linear(D, D), CustomRMSNorm())), make_xy()
    truth = step_truth(model, square_loss, batch, 3)
    batch["x"].requires_grad_()
    for memory in ("hooks", "recompute"):
        assert_is_truth(features_of(model, batch, memory=memory), truth)
    assert batch["x"].grad is None


def test_replay_runs_under_the_autocast_of_the_call() -> None:
    """Inputs of the norm come out of autocast in bfloat16; its matrix would not fit them outside."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.Parameter(torch.ones(D, D))

        def forward(self, s: Tensor) -> Tensor:
            return F.linear(s, self.w)

    model = make(nn.Sequential(nn.Linear(D, D), Mixed()), dtype=torch.float32)
    batch = make_xy(dtype=torch.float32)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return square_loss(model, batch)

    plain = features_of(model, batch)
    for memory in ("hooks", "recompute"):
        mixed = features_of(model, batch, loss, memory=memory)
        assert mixed.values.dtype == np.float32
        assert_near(mixed.values, plain.values, row_norms(plain.values), "autocast", 0.03)
