"""Refusals of the fast backend: which error, with which words, and the model as it was."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fast_cases import features_of, leaving_as_it_came
from looped_models import BODY, D, Looped, make, make_xy, square_loss
from torch import Tensor, nn

from sdi import Loop, SketchMap
from sdi.errors import CoverageError, NonFiniteError, SketchMismatch
from sdi.fast import coverage


def plain() -> Looped:
    return make(nn.Sequential(nn.Linear(D, D), nn.Tanh()))


def with_part(name: str, part: Any) -> Looped:
    """A model with something more in its core."""
    model = plain()
    setattr(model.core, name, part)
    return model


class Holder(nn.Module):
    def __init__(self, p: Tensor) -> None:
        super().__init__()
        self.p = nn.Parameter(p, requires_grad=False)

    def forward(self, s: Tensor) -> Tensor:
        return s


def poisoned(model: nn.Module, batch: Any) -> Tensor:
    """A gradient of step 2 that is not a number, in example 1."""
    seen = 0

    def poison(module: nn.Module, args: Any, y: Tensor) -> None:
        nonlocal seen
        seen += 1
        if seen == 2 and y.requires_grad:
            y.register_hook(lambda g: g * torch.tensor([1.0, float("nan"), 1.0], dtype=g.dtype)[:, None, None])

    handle = model.core.register_forward_hook(poison)
    try:
        return square_loss(model, batch)
    finally:
        handle.remove()


def with_nan(batch: dict[str, Tensor]) -> dict[str, Tensor]:
    batch["y"][1, 0, 0] = float("nan")
    return batch


def frozen_loss(model: nn.Module, batch: Any) -> Tensor:
    with torch.no_grad():
        return square_loss(model, batch)


def one_by_one(model: nn.Module, batch: Any) -> Tensor:
    return torch.vmap(lambda x, y: square_loss(model, {"x": x[None], "y": y[None]})[0])(batch["x"], batch["y"])


def scripted() -> Looped:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return make(nn.Sequential(torch.jit.script(nn.Linear(D, D)), nn.Tanh()))


Refusal = tuple[Callable[[], Looped], Callable[..., Any], dict[str, Any], type[Exception], str]
REFUSALS: dict[str, Refusal] = {
    "scalar loss": (
        plain,
        lambda m, b: square_loss(m, b).mean(),
        {},
        ValueError,
        r"one value per example: expected shape \(n,\), got \(\); use reduction='none'",
    ),
    "loss of tokens": (
        plain,
        lambda m, b: square_loss(m, b)[:, None],
        {},
        ValueError,
        r"expected shape \(n,\), got \(3, 1\)",
    ),
    "loss that is no tensor": (
        plain,
        lambda m, b: square_loss(m, b).tolist(),
        {},
        TypeError,
        "tensor with one value per example, got list",
    ),
    "loss without the body": (plain, frozen_loss, {}, CoverageError, "does not depend on the body"),
    "nan in a loss": (plain, square_loss, {"batch": with_nan(make_xy())}, NonFiniteError, "loss of example 1 is nan"),
    "nan in the loss of an example with an id": (
        plain,
        square_loss,
        {"batch": with_nan(make_xy()), "ids": ("a", "b", "c")},
        NonFiniteError,
        "loss of example 'b' is nan",
    ),
    "nan in a step": (
        plain,
        poisoned,
        {},
        NonFiniteError,
        r"gradient of 'core\.0\.weight' at step [12] of example '1' is nan",
    ),
    "integer parameter": (
        lambda: with_part("h", Holder(torch.ones(2, dtype=torch.int64))),
        square_loss,
        {},
        CoverageError,
        r"'core\.h\.p' must be of a real floating type, got torch\.int64",
    ),
    "complex parameter": (
        lambda: with_part("h", Holder(torch.ones(2, dtype=torch.complex64))),
        square_loss,
        {},
        CoverageError,
        r"got torch\.complex64",
    ),
    "a bare parameter that is not used": (
        plain,
        square_loss,
        {"loop": Loop(body=["bare"], step="core")},
        CoverageError,
        r"'bare' \(2,\) cannot be covered: no operation was seen to take it",
    ),
    "no loop": (plain, square_loss, {"loop": "core"}, TypeError, r"loop must be an sdi\.Loop, .* got 'core'"),
    "a core in TorchScript": (
        scripted,
        square_loss,
        {},
        CoverageError,
        r"module 'core\.0' is TorchScript, whose calls cannot be followed",
    ),
    "a model called under vmap": (
        plain,
        one_by_one,
        {},
        CoverageError,
        r"the loop was called under torch\.vmap .* call the model on the whole batch",
    ),
    "body only outside the steps": (
        plain,
        square_loss,
        {"loop": Loop(body="core", step="head")},
        CoverageError,
        "no call of a body module lies within one of the 1 steps",
    ),
    "no examples": (
        plain,
        lambda m, b: square_loss(m, b)[:0],
        {},
        ValueError,
        "a batch must hold at least one example, got one with none",
    ),
    "unknown step": (
        plain,
        square_loss,
        {"loop": Loop(body="core", step="coer")},
        ValueError,
        "step module 'coer' is not in the model; did you mean 'core'",
    ),
    "foreign step": (
        plain,
        square_loss,
        {"loop": Loop(body="core", step=nn.Linear(1, 1))},
        ValueError,
        "step module Linear is not in the model",
    ),
    "unknown end": (
        plain,
        square_loss,
        {"loop": Loop(body="core", step="core", end="ende")},
        ValueError,
        "end module 'ende' is not in the model; did you mean 'end'",
    ),
    "unknown body": (
        plain,
        square_loss,
        {"loop": Loop(body="cor", step="core")},
        CoverageError,
        "body entry 'cor' matches no parameter of the model; did you mean 'core'",
    ),
    "foreign body": (
        plain,
        square_loss,
        {"loop": Loop(body=nn.Linear(1, 1), step="core")},
        ValueError,
        "body module Linear is not in the model",
    ),
    "step never called": (
        plain,
        square_loss,
        {"loop": Loop(body="core", step="spare")},
        ValueError,
        r"step module was never called .* \.forward\(\.\.\.\), which no hook sees",
    ),
    "other shapes": (
        plain,
        square_loss,
        {"sketch": SketchMap.draw({"core.0.weight": (6, 7), "core.0.bias": (6,)}, m=4)},
        SketchMismatch,
        r"'core\.0\.weight' with shape \(6, 7\), the model has \(6, 6\)",
    ),
    "memory": (
        plain,
        square_loss,
        {"memory": "disk"},
        ValueError,
        r"memory must be one of \('auto', 'hooks', 'recompute'\), got 'disk'",
    ),
    "audit": (
        plain,
        square_loss,
        {"audit": "never"},
        ValueError,
        r"audit must be one of \('first', 'every', 'off'\), got 'never'",
    ),
    "budget": (plain, square_loss, {"budget": 1000}, ValueError, "budget must be at least 1 MiB .* got 1000"),
    "ids": (plain, square_loss, {"ids": ["a"]}, ValueError, "ids must name each of the 3 examples, got 1"),
}


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("name", REFUSALS)
def test_it_is_refused_and_the_model_is_as_it_was(name: str, memory: str) -> None:
    build, loss, options, error, message = REFUSALS[name]
    model = build()
    model.spare, model.bare = nn.Linear(2, 2), nn.Parameter(torch.ones(2))
    model.core.requires_grad_(False)
    model.head.weight.grad = torch.ones_like(model.head.weight)
    options = {"loop": BODY, "batch": make_xy(), "memory": memory, **options}
    with pytest.raises(error, match=message):
        features_of(model, options.pop("batch"), loss, **options)


def test_coverage_refuses_what_featurize_refuses() -> None:
    model = plain()
    model.spare = nn.Linear(2, 2)
    with (
        leaving_as_it_came(model),
        pytest.raises(CoverageError, match=r"'spare\.\w+' .* never called"),
    ):
        coverage(model, square_loss, make_xy(), loop=Loop(body=["spare"], step="core"))
