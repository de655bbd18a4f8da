"""The oracle and the comparisons of fast tests reject what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.utils.checkpoint
from fast_cases import assert_near, example, leaving_as_it_came, step_truth
from looped_models import D, make, make_xy, square_loss
from torch import nn


def test_the_oracle_sums_to_the_gradient_of_the_whole_model() -> None:
    model, batch = make(nn.Linear(D, D), norm=nn.LayerNorm(D)), make_xy()
    phi, outside = step_truth(model, square_loss, batch, 3)
    for i in range(3):
        model.zero_grad()
        square_loss(model, example(batch, i)).sum().backward()
        for name in phi:
            np.testing.assert_allclose(
                phi[name][i].sum(axis=0) + outside[name][i], model.get_parameter(name).grad, rtol=1e-10, atol=1e-12
            )


def test_the_comparison_rejects_what_is_not_close() -> None:
    x, size = np.ones((2, 3)), np.full(2, 2.0)
    assert_near(x, x + 1e-10, size, "x")
    for wrong in (x + 3e-10, np.array([[1, 1, 1], [1, 1, 1.1]]), x * np.nan):
        with pytest.raises(AssertionError, match="differ"):
            assert_near(x, wrong, size, "x")
    with pytest.raises(AssertionError, match="shapes"):
        assert_near(x, np.ones((2, 3, 1)), size, "x")


def _hook(m: nn.Module) -> None:
    m.core.register_forward_hook(lambda *_: None)


def _replace_buffer(m: nn.Module) -> None:
    m.norm.running_mean = m.norm.running_mean.clone()


@pytest.mark.parametrize(
    ("what", "harm"),
    [
        ("hooks", _hook),
        ("modes", lambda m: m.core.eval()),
        ("modes", lambda m: setattr(m.core, "forward", m.core.forward)),
        ("flags", lambda m: m.core.bias.requires_grad_(False)),
        ("flags", lambda m: setattr(m.core.bias, "grad", torch.zeros(D))),
        ("grads", lambda m: m.core.weight.grad.add_(1)),
        ("weights", lambda m: m.core.weight.data.add_(1)),
        ("buffers", lambda m: m.norm.running_mean.add_(1)),
        ("buffers", _replace_buffer),
        ("random", lambda m: torch.rand(1)),
    ],
)
def test_the_comparison_of_models_sees_every_harm(what: str, harm: Callable[[Any], Any]) -> None:
    model = make(nn.Linear(D, D), dtype=torch.float32, norm=nn.BatchNorm1d(D))
    model.core.weight.grad = torch.ones(D, D)
    with leaving_as_it_came(model):
        pass
    with pytest.raises(AssertionError, match=f"{what} changed"), leaving_as_it_came(model):
        harm(model)
