"""Every kind of module: step gradients against the oracle, and the table that says how each parameter is served."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from fast_cases import assert_is_truth, assert_near, body_of, features_of, row_norms, step_truth
from looped_models import LENGTH, D, make, make_xy, square_loss
from modules import (
    Attended,
    Cell,
    Conv1D,
    CustomRMSNorm,
    Embedded,
    Gated,
    InPlace,
    LoRA,
    Rows,
    Shared,
    Twice,
    Unpacked,
    hooked,
    symmetric,
    through,
)
from torch import Tensor, nn
from torch.nn.utils import parametrizations

from sdi import SketchMap
from sdi.fast import coverage

N = 3


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


@pytest.mark.slow
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
