"""A proof of whose rows are whose is never wrong, whatever sizes coincide; calls that it cannot settle are weighed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fast_cases import batch_second, batch_second_loss, features_of
from looped_models import D, Own, make, make_xy, squares
from odd_models import CORE, is_truth
from torch import Tensor, nn

from sdi import Loop
from sdi.bench.work.cases import gpt, sudoku
from sdi.fast import Featurizer, featurize, token_cross_entropy
from sdi.fast.follow import one_pass
from sdi.fast.rows.row_proof import RowProof
from sdi.fast.rows.row_rules import SHARED, UNKNOWN

N = 3
X = (N, N, N)  # all sizes coincide
ROWS = torch.arange(N)
TURNED = torch.tensor([2, 0, 1])
W = torch.randn(N, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
PROVEN: dict[
    str, Callable[[Tensor], Tensor]
] = {  # from x (n, n, n), examples first, to whatever; then summed per example
    "elementwise": lambda x: (x * x + x.sin() - 2 * x).exp(),
    "broadcast": lambda x: x + x[:, :1] * W + x.mean(dim=2, keepdim=True),
    "reshape": lambda x: x.reshape(N * N, N).tanh().reshape(N, N * N),
    "blocks": lambda x: x.reshape(1, N * N, N).cos().reshape(N, N, N),
    "linear": lambda x: F.linear(x, W, W[0]),
    "flat linear": lambda x: F.linear(x.reshape(-1, N), W).reshape(N, -1),
    "transposed": lambda x: F.linear(x.transpose(0, 1), W).transpose(0, 1),
    "permuted": lambda x: x.permute(2, 0, 1).exp().permute(1, 2, 0),
    "bmm": lambda x: x @ x.transpose(1, 2),
    "einsum": lambda x: torch.einsum("nij,nkj->nik", x, x.sin()),
    "softmax": lambda x: x.softmax(-1) + x.softmax(1),
    "log softmax": lambda x: x.log_softmax(1),
    "layer norm": lambda x: F.layer_norm(x, (N,), W[0], W[1]),
    "attention": lambda x: F.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None])[:, 0],
    "attention, tokens first": lambda x: F.scaled_dot_product_attention(
        *[x.transpose(0, 1)[:, None].transpose(0, 2)] * 3
    )[:, 0],
    "reductions": lambda x: x.sum(1) + x.mean(2) + x.amax(1) + x.max(2).values + x.logsumexp(1) + x.norm(dim=2),
    "cat": lambda x: torch.cat([x, x.sin()], dim=1),
    "stack": lambda x: torch.stack([x, x.sin()], dim=1),
    "split": lambda x: sum(part.sin() for part in x.split(1, dim=1)),
    "chunk": lambda x: x.chunk(3, dim=2)[1],
    "unbind": lambda x: x.unbind(1)[1] * x.unbind(2)[0],
    "select": lambda x: x[:, 1] + x[:, :, 2],
    "slice": lambda x: x[:, 1:] + x[:, :2],
    "pad": lambda x: F.pad(x, (1, 0, 2, 0)),
    "own index": lambda x: x[ROWS, TURNED],
    "other index": lambda x: x[:, TURNED],
    "gather": lambda x: x.gather(2, TURNED.expand(N, N, N)),
    "where": lambda x: torch.where(x > 0, x, x.exp()),
    "cumsum": lambda x: x.cumsum(1),
    "sort": lambda x: x.sort(dim=2).values,
    "convolution": lambda x: F.conv1d(x, W[:, :, None]),
    "group norm": lambda x: F.group_norm(x, 1),
    "expand": lambda x: x[:, None].expand(N, N, N, N) * W,
    "glu": lambda x: F.glu(torch.cat([x, x], dim=-1)),
    "dropout of nothing": lambda x: F.dropout(x, 0.0, True),
}
NOT_PROVEN: dict[str, Callable[[Tensor], Tensor]] = {  # examples move, or mix: never claimed to be in order
    "mean over the batch": lambda x: x - x.mean(0),
    "cumsum over the batch": lambda x: x.cumsum(0),
    "softmax over the batch": lambda x: x.softmax(0),
    "flip": lambda x: x.flip(0),
    "turned": lambda x: x[TURNED],
    "turned and back": lambda x: x[TURNED].sin()[TURNED.argsort()],
    "roll": lambda x: x.roll(1, 0),
    "transposed batch": lambda x: x.transpose(0, 1),
    "matmul over the batch": lambda x: torch.tensordot(W, x, dims=1),
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "one by one": lambda x: torch.stack([x[i].sin() for i in range(N)]),
    "cat over the batch": lambda x: torch.cat([x[1:], x[:1]]),
    "shared": lambda x: x[0] + torch.zeros(N, 1, 1, dtype=x.dtype),
    "layer norm over the batch": lambda x: F.layer_norm(x.transpose(0, 2), (N,)).transpose(0, 2),
    "attention over the batch": lambda x: F.scaled_dot_product_attention(x, x, x).transpose(0, 1),
    "reshaped across": lambda x: x.transpose(0, 1).reshape(N, -1),
}


def losses_of(y: Tensor) -> Tensor:
    return (y * torch.linspace(0.5, 2, y[0].numel(), dtype=y.dtype).reshape(y.shape[1:])).flatten(1).sum(1)


def proven(f: Callable[[Tensor], Tensor]) -> tuple[int, Tensor]:
    """The block of x, and which losses each of its entries really acts on: (n, entries)."""
    x = torch.randn(X, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    y = x * 1.0
    losses = losses_of(f(y))
    proof = RowProof(N)
    proof.follow([(losses, 1)])
    acts = torch.stack([torch.autograd.grad(loss, x, retain_graph=True)[0].flatten() for loss in losses])
    return proof.block_of(y.grad_fn, 0), acts.abs() > 0


@pytest.mark.parametrize("name", PROVEN)
def test_where_examples_stand_is_proven_and_true(name: str) -> None:
    block, acts = proven(PROVEN[name])
    assert block == N * N
    owners = torch.arange(acts.shape[1]) // block % N
    assert acts.any(dim=1).all()
    assert not acts[torch.arange(N)[:, None] != owners].any()


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_examples_that_move_or_mix_are_never_claimed_to_stand_in_order(name: str) -> None:
    block, acts = proven(NOT_PROVEN[name])
    assert block != N * N or name in ("one by one",)
    if block not in (SHARED, UNKNOWN):
        owners = torch.arange(acts.shape[1]) // block % N
        assert not acts[torch.arange(N)[:, None] != owners].any()


class OneByOne(Own):
    """Each example goes through the core alone, its four options as rows."""

    def __init__(self) -> None:
        super().__init__()
        self.tick = nn.Identity()

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for _ in range(3):
            h = self.tick(h)
            h = torch.stack([torch.tanh(self.core(row)) for row in h])
        return h


class Streams(Own):
    """Four residual streams before the batch."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        s = torch.stack([h, h.sin(), h.cos(), -h])
        for _ in range(3):
            s = s + torch.tanh(self.core(s)) + s.mean(dim=0)
        return s.sum(dim=0)


class Ragged(Own):
    """Examples of different lengths, one after another."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        out = []
        for k, row in enumerate(h):
            s = row[: 2 + k]
            for _ in range(3):
                s = torch.tanh(self.core(s))
            out.append(F.pad(s, (0, 0, 0, len(row) - len(s))))
        return torch.stack(out)


class Experts(nn.Module):
    """Tokens whose first number is positive go to one linear map, the others to another."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, s: Tensor) -> Tensor:
        flat = s.reshape(-1, D)
        to_a = flat[:, 0] > 0
        order = torch.cat([to_a.nonzero().flatten(), (~to_a).nonzero().flatten()])
        return torch.cat([self.a(flat[to_a]), self.b(flat[~to_a])])[order.argsort()].view_as(s).tanh()


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize(
    "make_model", [OneByOne, Streams, lambda: Own(Experts())], ids=["options", "streams", "experts"]
)
def test_sizes_that_coincide_in_any_batch_change_nothing(make_model: Any, memory: str) -> None:
    for order in ([4, 3, 2, 1, 4], [3, 4, 1, 2], [2, 3, 5, 4]):
        model = make_model()
        loop = Loop(body="core", step="tick") if hasattr(model, "tick") else CORE
        run = Featurizer(model, squares, loop=loop, memory=memory)
        for k, n in enumerate(order):
            batch = make_xy(n, seed=k, length=4)
            is_truth(run(batch), model, batch)


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_an_example_as_long_as_the_batch_is_still_one_example(n: int) -> None:
    model, batch = Ragged(), make_xy(n, length=8)
    is_truth(featurize(model, squares, batch, loop=CORE, audit="off"), model, batch)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("n", [3, 5])
def test_examples_may_stand_on_the_second_axis_even_if_sequences_are_as_long(n: int, memory: str) -> None:
    model, batch = make(nn.Linear(D, D)), batch_second(n)  # five tokens
    features = features_of(model, batch, batch_second_loss, audit="off", memory=memory)
    for i in range(n):
        one = {k: v[:, i : i + 1] for k, v in batch.items()}
        alone = features_of(model, one, batch_second_loss, audit="off", memory=memory)
        torch.testing.assert_close(torch.tensor(features.values[i]), torch.tensor(alone.values[0]))


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("case", [gpt(quick=True), sudoku(quick=True)], ids=["gpt", "sudoku"])
def test_the_models_that_are_benchmarked_cost_no_second_pass(
    case: Any, memory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_pass, "loss_weights", None)
    run = Featurizer(case.model(), token_cross_entropy, loop=case.config.loop(), memory=memory, audit="off")
    assert np.isfinite(run(case.batch()).values).all()


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_what_is_proven_costs_no_second_pass(memory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(one_pass, "loss_weights", None)  # what a second pass would call
    core = nn.Sequential(nn.Linear(D, 2 * D), nn.GELU(), nn.LayerNorm(2 * D), nn.Linear(2 * D, D))
    for length in (3, 5, None):
        model, batch = Own(core), make_xy(3, length=length)
        is_truth(featurize(model, squares, batch, loop=CORE, memory=memory), model, batch)
