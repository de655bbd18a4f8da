"""Every kind of module: step gradients against the oracle, and the table that says how each parameter is served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fast_cases import (
    LENGTH,
    D,
    assert_is_truth,
    assert_near,
    body_of,
    features_of,
    make,
    make_xy,
    row_norms,
    square_loss,
    step_truth,
)
from modules import Attended, CustomRMSNorm, Embedded, Gated
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from sdi import Loop, SketchMap
from sdi.fast import coverage

N = 3


class Through(nn.Module):
    """s + tanh(after(inner(before(s))))"""

    def __init__(self, inner: nn.Module, before: Callable[..., Any], after: Callable[..., Tensor]) -> None:
        super().__init__()
        self.inner, self.before, self.after = inner, before, after

    def forward(self, s: Tensor) -> Tensor:
        return s + torch.tanh(self.after(self.inner(self.before(s))))


def through(
    inner: nn.Module, before: Callable[..., Any] = lambda s: s, after: Callable[..., Any] = lambda s: s
) -> Through:
    return Through(inner, before, after)


class Conv1D(nn.Module):
    """As in Hugging Face's GPT-2."""

    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.weight, self.bias = nn.Parameter(torch.empty(nx, nf)), nn.Parameter(torch.empty(nf))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight).view(*x.shape[:-1], self.nf)


class LoRA(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.base = nn.Linear(D, D)
        self.A, self.B = nn.Parameter(torch.ones(2, D)), nn.Parameter(torch.ones(D, 2))

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(self.base(s) + s @ self.A.T @ self.B.T)


class Shared(nn.Module):
    """One parameter in two modules, one module under two names, and a bare name for a weight that a module uses."""

    def __init__(self, bare: bool) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(D, D), nn.Linear(D, D, bias=False)
        self.b.weight = self.a.weight
        self.c = self.a
        self.bare = self.a.weight if bare else None

    def forward(self, s: Tensor) -> Tensor:
        s = torch.tanh(self.b(self.a(s))) + self.c(s)
        return s if self.bare is None else s @ self.bare


class Cell(nn.Module):
    """Two outputs, one of which is used for the other."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.v = nn.Parameter(torch.ones(D)), nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor) -> dict[str, Any]:
        c = torch.tanh(self.w * s)
        h = self.v * c * s
        return {"h": h, "also": [h, c], "index": torch.arange(3)}


class Rows(nn.Module):
    """A gate beside a table that all examples share and that has as many rows as there are examples."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor, table: Tensor) -> Tensor:
        return self.gate * s + torch.tanh(self.gate * table.sum(dim=0) + table[0])


class Symmetric(nn.Module):
    def forward(self, w: Tensor) -> Tensor:
        return w.triu() + w.triu(1).transpose(-1, -2)


def symmetric() -> nn.Module:
    linear = nn.Linear(D, D)
    parametrize.register_parametrization(linear, "weight", Symmetric())
    return linear


def hooked() -> nn.Module:
    """The user's own hooks change what goes in and what comes out."""
    core = nn.Sequential(nn.Linear(D, D), CustomRMSNorm())
    for module in core:
        module.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
        module.register_forward_hook(lambda m, args, y: 3 * y + args[0])
    return core


class Twice(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(D, D)

    def forward(self, s: Tensor) -> Tensor:
        return self.lin(torch.tanh(self.lin(input=s)))


class InPlace(nn.Module):
    """What follows changes outputs in place, the first one included."""

    def __init__(self) -> None:
        super().__init__()
        self.lin, self.conv, self.norm = nn.Linear(D, D), Conv1D(D, D), CustomRMSNorm()

    def forward(self, s: Tensor) -> Tensor:
        return self.norm(self.conv(self.lin(torch.tanh(s)).mul_(2)).mul_(3)).add_(1).tanh_()


def channels(s: Tensor) -> Tensor:
    return s.transpose(1, 2)


LINEAR, REPLAY, NORM = "linear", "replay", "norm"
CORES: dict[str, tuple[Callable[[], nn.Module], dict[str, str]]] = {
    "linear": (
        lambda: nn.Sequential(nn.Linear(D, 8), nn.Tanh(), nn.Linear(8, D, bias=False)),
        {"0.weight": LINEAR, "0.bias": LINEAR, "2.weight": LINEAR},
    ),
    "extra axes": (
        lambda: through(nn.Linear(3, 3), lambda s: s.unflatten(-1, (2, 3)), lambda s: s.flatten(-2)),
        {"inner.weight": LINEAR},
    ),
    "flattened": (
        lambda: through(nn.Linear(D, D), lambda s: s.flatten(0, 1), lambda s: s.unflatten(0, (-1, LENGTH))),
        {"inner.bias": LINEAR},
    ),
    "embedding": (Embedded, {"table.weight": "embedding"}),
    "padded embedding": (lambda: Embedded(padding_idx=1), {"table.weight": "embedding"}),
    "layer norm": (lambda: nn.LayerNorm(D), {"weight": NORM, "bias": NORM}),
    "layer norm of two axes": (lambda: nn.LayerNorm((LENGTH, D)), {"weight": NORM}),
    "layer norm without bias": (lambda: nn.LayerNorm(D, bias=False), {"weight": NORM}),
    "plain layer norm": (
        lambda: nn.Sequential(nn.LayerNorm(D, elementwise_affine=False), nn.Linear(D, D)),
        {"1.weight": LINEAR},
    ),
    "rms norm": (lambda: nn.RMSNorm(D), {"weight": NORM}),
    "custom rms norm": (CustomRMSNorm, {"scale": REPLAY}),
    "hugging face": (
        lambda: nn.Sequential(Conv1D(8, D), Conv1D(D, 8)),
        {"0.weight": "linear (transposed)", "1.bias": "linear (transposed)"},
    ),
    "conv1d": (
        lambda: through(nn.Conv1d(D, D, 3, padding=2, dilation=2), channels, channels),
        {"inner.weight": "convolution"},
    ),
    "grouped conv1d": (
        lambda: through(nn.Conv1d(D, D, 3, padding="same", groups=2), channels, channels),
        {"inner.weight": REPLAY},
    ),
    "conv2d": (
        lambda: through(
            nn.Conv2d(LENGTH, LENGTH, (3, 1), padding=(1, 0)),
            lambda s: s.unflatten(-1, (2, 3)),
            lambda s: s.flatten(-2),
        ),
        {"inner.weight": "convolution", "inner.bias": "convolution"},
    ),
    "conv3d": (
        lambda: through(
            nn.Conv3d(LENGTH, LENGTH, (1, 3, 1), padding=(0, 1, 0)),
            lambda s: s[:, :, None].unflatten(-1, (2, 3)),
            lambda s: s.flatten(-3),
        ),
        {"inner.weight": REPLAY},
    ),
    "attention": (
        lambda: Attended(True),
        {"attn.in_proj_weight": REPLAY, "attn.out_proj.weight": REPLAY, "norm.weight": NORM},
    ),
    "attention, batch second": (lambda: Attended(False), {"attn.in_proj_bias": REPLAY, "attn.out_proj.bias": REPLAY}),
    "masked attention": (lambda: Attended(True, mask=True), {"attn.in_proj_weight": REPLAY}),
    "masked attention, batch second": (lambda: Attended(False, mask=True), {"attn.in_proj_weight": REPLAY}),
    "shared": (lambda: Shared(False), {"a.weight": LINEAR}),
    "shared with a bare name": (lambda: Shared(True), {"bare": REPLAY, "a.bias": LINEAR}),
    "gated": (Gated, {"gate": REPLAY, "scalar": REPLAY, "mix": REPLAY, "lin.weight": LINEAR}),
    "lora": (LoRA, {"A": REPLAY, "B": REPLAY, "base.weight": LINEAR}),
    "weight norm": (
        lambda: parametrizations.weight_norm(nn.Linear(D, D)),
        {"parametrizations.weight.original0": REPLAY, "bias": LINEAR},
    ),
    "symmetric": (lambda: through(symmetric()), {"inner.parametrizations.weight.original": REPLAY}),
    "two outputs": (
        lambda: through(Cell(), after=lambda y: y["h"] + 2 * y["also"][0] + y["also"][1]),
        {"inner.w": REPLAY},
    ),
    "hooks of the user": (hooked, {"0.weight": LINEAR, "1.scale": REPLAY}),
    "no tokens": (
        lambda: nn.Sequential(nn.Linear(D, D), through(nn.Linear(D, D), lambda s: s[:, :0], lambda y: y.sum(1, True))),
        {"1.inner.weight": LINEAR},
    ),
    "twice in a step": (Twice, {"lin.weight": LINEAR}),
    "in place": (InPlace, {"lin.weight": LINEAR, "conv.bias": "linear (transposed)", "norm.scale": REPLAY}),
    "lstm": (lambda: through(nn.LSTM(D, D, batch_first=True), after=lambda y: y[0]), {"inner.weight_hh_l0": REPLAY}),
}


@pytest.mark.parametrize("n", [N, LENGTH])
@pytest.mark.parametrize("name", CORES)
def test_the_features_of_every_module_are_those_of_the_oracle(name: str, n: int) -> None:
    core, routes = CORES[name]
    model, batch = make(core()), make_xy(n)
    model.eval()
    truth = step_truth(model, square_loss, batch, 3)
    loop = body_of(model)
    hooks = features_of(model, batch, memory="hooks")
    assert_is_truth(hooks, truth)
    assert hooks.outside is None
    recomputed = features_of(model, batch, memory="recompute")
    assert_near(recomputed.values, hooks.values, row_norms(hooks.values), "recompute", 1e-13)

    rows = {row.parameter: row for row in coverage(model, square_loss, batch, loop=loop)}
    assert {k: rows["core." + k].route for k in routes} == routes
    assert list(rows) == [n for n, _ in model.named_parameters() if n.startswith("core.")]
    assert all(row.shape == tuple(model.get_parameter(k).shape) for k, row in rows.items())

    shapes = {b.name: b.shape for b in hooks.blocks}
    sketch = SketchMap.draw(shapes, m=5)
    arrays = {
        b.name: hooks.values[..., b.start : b.stop].reshape(*hooks.values.shape[:2], *b.shape) for b in hooks.blocks
    }
    sketched = features_of(model, batch, sketch=sketch)
    assert_near(sketched.values, sketch.apply(arrays), row_norms(hooks.values), "sketched", 1e-12)


def test_a_two_dimensional_state_is_covered() -> None:
    model, batch = make(nn.Sequential(nn.Linear(D, D), nn.Tanh(), CustomRMSNorm())), make_xy(length=None)
    assert_is_truth(features_of(model, batch), step_truth(model, square_loss, batch, 3))


def test_an_input_that_all_examples_share_is_not_split_even_if_it_has_n_rows() -> None:
    table = torch.randn(N, D, dtype=torch.float64)
    for inputs in ((lambda s: (s, table)), (lambda s: {"s": s, "table": table})):
        model, batch = make(through(Unpacked(Rows()), inputs)), make_xy(N)
        assert_is_truth(features_of(model, batch), step_truth(model, square_loss, batch, 3))


class Unpacked(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(**x) if isinstance(x, dict) else self.inner(*x)


class StepEmbedded(nn.Module):
    """Parts called on something without a batch axis: the module around them is replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp, self.bias = nn.Linear(D, D), nn.Embedding(7, D)

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(s + self.mlp(torch.ones(1, D, dtype=s.dtype)) + self.bias(torch.arange(7)).sum(dim=0))


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
    assert_near(only.values, phi["core.a.weight"].reshape(N, 3, -1), row_norms(only.values), "tied")
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
