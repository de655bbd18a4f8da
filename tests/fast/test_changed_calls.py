"""Calls that change in a later batch: replaced weights, values that leave a call by the side, modules that recurse."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from fast_cases import assert_is_truth, body_of, features_of, step_truth
from looped_models import D, make, make_xy, square_loss
from odd_models import unseen
from torch import Tensor, nn
from torch.func import functional_call

from sdi import Loop
from sdi.errors import AuditError, CoverageError
from sdi.fast import Featurizer
from sdi.inputs.fingerprint import model_fingerprint

MEMORY = pytest.mark.parametrize("memory", ["hooks", "recompute"])


class Around(nn.Module):
    """A core that calls its linear map in a way of its choice."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)
        self.call: Callable[[nn.Module, Tensor], Tensor] = lambda lin, s: lin(s)

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(self.call(self.lin, s))


def patched(lin: Any, s: Tensor) -> Tensor:
    original = lin.forward
    lin.forward = lambda x: 2 * original(x)
    try:
        return lin(s)
    finally:
        del lin.forward


def without_bias(lin: Any, s: Tensor) -> Tensor:
    bias, lin.bias = lin.bias, None
    try:
        return lin(s)
    finally:
        lin.bias = bias


REPLACED: dict[str, Callable[[Any, Tensor], Tensor]] = {
    "functional call": lambda lin, s: functional_call(lin, {"weight": 2 * lin.weight}, (s,)),
    "another forward": patched,
    "no bias": without_bias,
}


@MEMORY
@pytest.mark.parametrize("name", REPLACED)
def test_weights_and_methods_that_are_replaced_in_a_later_batch_are_refused(name: str, memory: str) -> None:
    model, batch = make(Around()), make_xy()
    featurizer = Featurizer(model, square_loss, loop=Loop(body="core", step="core"), memory=memory)
    featurizer(batch)
    model.core.call = REPLACED[name]
    with pytest.raises(CoverageError, match=r"was called with another|gives another output"):
        featurizer(batch)


class Router(nn.Module):
    """Bare parameters, served by replay. keep: called with what it makes on the way."""

    def __init__(self, keep: Callable[[Router, Tensor], None] | None = None) -> None:
        super().__init__()
        self.router, self.out = nn.Parameter(torch.ones(D, 2)), nn.Parameter(torch.ones(2, D))
        self.logits: Any = None
        self.keep = keep or (lambda router, logits: setattr(router, "logits", logits))

    def forward(self, s: Tensor) -> Tensor:
        logits = s @ self.router
        self.keep(self, logits)
        return torch.tanh(s + logits.softmax(-1) @ self.out)


def z_loss(model: Any, batch: Any) -> Tensor:
    losses = square_loss(model, batch)
    if batch["z"]:
        losses = losses + model.core.logits.logsumexp(-1).square().mean(1)
    return losses


@MEMORY
def test_a_value_that_a_replayed_call_leaves_on_itself_in_a_later_batch_is_not_lost(memory: str) -> None:
    model = make(Router())
    featurizer = Featurizer(model, z_loss, loop=body_of(model), memory=memory)
    for seed in (1, 2):
        featurizer({**make_xy(seed=seed), "z": False})
    batch = {**make_xy(seed=3), "z": True}
    assert_is_truth(featurizer(batch), step_truth(model, z_loss, batch, 3))


@MEMORY
def test_a_value_that_leaves_a_replayed_call_by_another_way_in_a_later_batch_is_not_lost(memory: str) -> None:
    """Through an object that is not a module of the model: found by the operations that use the value."""
    kept = SimpleNamespace(logits=None)
    model = make(Router(lambda router, logits: setattr(kept, "logits", logits)))

    def loss(model: Any, batch: Any) -> Tensor:
        losses = square_loss(model, batch)
        return losses + kept.logits.logsumexp(-1).square().mean(1) if batch["z"] else losses

    featurizer = Featurizer(model, loss, loop=body_of(model), memory=memory)
    for seed in (1, 2):
        featurizer({**make_xy(seed=seed), "z": False})
    with pytest.raises(AuditError, match="differs from autograd's"):
        featurizer({**make_xy(seed=3), "z": True})


def test_a_value_that_is_only_looked_at_does_no_harm() -> None:
    model, seen = make(Router()), []

    def loss(model: Any, batch: Any) -> Tensor:
        losses = square_loss(model, batch)
        seen.append(model.core.logits.detach().mean(1).sum(1))
        return losses

    features = features_of(model, make_xy(), loss)
    assert_is_truth(features, step_truth(model, square_loss, make_xy(), 3))
    assert seen


class Some(nn.Module):
    """Calls its map for some examples only, and leaves a value that the loss uses."""

    def __init__(self) -> None:
        super().__init__()
        self.lin, self.least = nn.Linear(D, D), -np.inf
        self.aux: Any = None

    def forward(self, s: Tensor) -> Tensor:
        on = s.detach().flatten(1).sum(1) > self.least
        if on.any():
            s = s + torch.zeros_like(s).index_put((on,), self.lin(s[on]))
        s = torch.tanh(s)
        self.aux = s.square().flatten(1).mean(1)
        return s


@MEMORY
def test_a_batch_that_uses_no_weight_changes_nothing_for_the_next(memory: str) -> None:
    model, batch = make(Some()), make_xy(4)

    def loss(model: Any, batch: Any) -> Tensor:
        return square_loss(model, batch) + model.core.aux

    featurizer = Featurizer(model, loss, loop=Loop(body="core", step="core"), memory=memory)
    right = featurizer(batch).values
    model.core.least = np.inf
    assert not featurizer(batch).values.any()
    model.core.least = -np.inf
    np.testing.assert_array_equal(featurizer(batch).values, right)


@MEMORY
def test_a_hook_on_what_a_core_returns_acts_on_what_it_leaves_as_well(memory: str) -> None:
    """The tensor with the hook is forgotten before the backward pass begins."""

    def around(core: Any, s: Tensor) -> Tensor:
        s = core(s)
        s.register_hook(lambda g: 0.5 * g)
        return s

    model = make(Some(), around=around)

    def loss(model: Any, batch: Any) -> Tensor:
        return square_loss(model, batch) + model.core.aux

    if memory == "recompute":
        with pytest.raises(CoverageError, match="leaves a value on itself, and a hook stands on what it returns"):
            features_of(model, make_xy(), loss, loop=Loop(body="core", step="core"), memory=memory)
    else:
        assert features_of(model, make_xy(), loss, loop=Loop(body="core", step="core"), memory=memory).values.any()


class Recursive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)

    def forward(self, s: Tensor, more: int = 2) -> Tensor:
        s = torch.tanh(self.lin(s))
        return self(s, more - 1) if more else s


def test_a_step_module_that_calls_itself_is_refused_when_it_would_be_run_again() -> None:
    model = make(Recursive(), tau=1)
    assert features_of(model, make_xy(), memory="hooks").values.shape[1] == 3
    with pytest.raises(CoverageError, match="calls itself; use memory='hooks'"):
        features_of(model, make_xy(), memory="recompute")


class Filling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)

    def forward(self, s: Tensor, kept: dict[str, Tensor]) -> Tensor:
        kept["s"] = s = torch.tanh(self.lin(s))
        return s


def test_an_argument_that_is_filled_is_named_when_it_would_be_lost() -> None:
    def around(core: Any, s: Tensor) -> Tensor:
        kept: dict[str, Tensor] = {}
        core(s, kept)
        return kept["s"]

    model = make(Filling(), around=around)
    features_of(model, make_xy(), memory="hooks")
    with pytest.raises(CoverageError, match="puts something into a list or dict"):
        features_of(model, make_xy(), memory="recompute")


def test_every_example_is_compared_with_autograd_under_recompute() -> None:
    """The last one of five has a term that uses a weight in a way that is not seen."""

    def loss(model: Any, batch: Any) -> Tensor:
        return square_loss(model, batch) + batch["kind"] * unseen(model.core.weight).square().sum()

    batch = {**make_xy(5), "kind": torch.tensor([0.0, 0, 0, 0, 1])}
    with pytest.raises(AuditError, match="differs from autograd's"):
        features_of(make(nn.Linear(D, D)), batch, loss, memory="recompute")


def test_a_wrapped_forward_leads_back_to_its_model_only_once() -> None:
    model = make(nn.Linear(D, D))
    before, original = model_fingerprint(model), model.forward
    model.forward = lambda *args: 2 * original(*args)
    assert model_fingerprint(model)["parts"] != before["parts"]
    assert model_fingerprint(model) == model_fingerprint(model)
