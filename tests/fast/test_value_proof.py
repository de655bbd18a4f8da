"""That no loss depends on another example is claimed only where it is so, though all sizes are equal."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sdi.fast.rows.value_proof import Tag, ValueProof, find_examples

N = 4  # examples, tokens, columns, heads: all sizes are equal
Loss = Callable[[Tensor], Tensor]
torch.manual_seed(0)
W, B = torch.randn(N, N), torch.randn(N)
GRU, CONV, NORM = nn.GRU(N, N, batch_first=True), nn.Conv1d(N, N, 3, padding=1), nn.GroupNorm(2, N)
ATTENTION = nn.MultiheadAttention(N, 2, batch_first=True)
BATCH_NORM = nn.BatchNorm1d(N)


def each(y: Tensor) -> Tensor:
    return y.flatten(1).sum(1)


def filled(x: Tensor) -> Tensor:
    z = torch.zeros(len(x), N)
    for k in range(N):
        z[:, k] = x[:, k].sum(1)
    return each(z)


def streams(x: Tensor) -> Tensor:
    z = torch.zeros(3, len(x), N, N)
    for k in range(3):
        z[k] = x * k
    return each((z.flatten(0, 1) @ W).unflatten(0, (3, -1)).mean(0))


def masked(x: Tensor) -> Tensor:
    keep = torch.arange(N) < (x[:, 0, :1] > 0) * 2 + 1
    scores = (x @ x.transpose(1, 2)).masked_fill(~keep[:, None], -torch.inf)
    return each(scores.softmax(-1) @ x)


def heads(x: Tensor) -> Tensor:
    q, k, v = (F.linear(x, w).view(len(x), N, 2, -1).transpose(1, 2) for w in (W, W.T, W + 1))
    return each(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))


def first_is_one(x: Tensor) -> Tensor:
    z = torch.zeros(len(x))
    z[0] = 1.0
    return each(x) * z


def first_is_zero(x: Tensor) -> Tensor:
    y = each(x)
    y[0] = 0.0
    return y


def placed(x: Tensor) -> Tensor:
    z = torch.zeros(len(x))
    z.copy_(torch.arange(len(x)))
    return each(x) * z


APART: dict[str, Loss] = {
    "affine": lambda x: each(torch.addmm(B, x.flatten(0, 1), W).view_as(x)),
    "columns times a matrix": lambda x: each((W @ x).tanh()),
    "tokens first": lambda x: x.transpose(0, 1).softmax(0).sum((0, 2)),
    "own mean": lambda x: each((x - x.mean(1, keepdim=True)) / x.std(-1, keepdim=True)),
    "own order": lambda x: each(x.sort(1)[0].cumsum(1).flip(1).roll(1, 2)),
    "detached": lambda x: each(x * x.detach().amax((1, 2), keepdim=True)),
    "layer norm": lambda x: each(F.layer_norm(x, (N,), B, B)),
    "rms norm": lambda x: each(F.rms_norm(x, (N,), B)),
    "convolution": lambda x: each(CONV(x)),
    "group norm": lambda x: each(NORM(x)),
    "attention": heads,
    "torch attention": lambda x: each(ATTENTION(x, x, x)[0]),
    "masked attention": masked,
    "own pairs": lambda x: each(torch.einsum("nld,nmd->nlm", x, x)),
    "zeros filled": filled,
    "streams filled": streams,
    "first state of zeros": lambda x: each(torch.zeros(len(x), N, N) + x),
    "positions": lambda x: each(x + torch.arange(N)[:, None]),
    "memory tokens": lambda x: each(torch.cat([W[:2].expand(len(x), 2, N), x], 1).tanh()),
    "stacked tokens": lambda x: each(torch.stack([x[:, l] @ W for l in range(N)], 1)),
    "own place": lambda x: x[torch.arange(len(x)), x[:, :, 0].argmax(1)].sum(1),
    "gathered": lambda x: each(x.gather(1, x.argsort(1))),
    "table": lambda x: each(W[(x[..., 0] > 0).long()]),
    "embedding": lambda x: each(F.embedding((x > 0).long(), W)),
    "classes": lambda x: F.cross_entropy(x.flatten(0, 1), x.argmax(-1).flatten(), reduction="none").view(-1, N).sum(1),
    "entropy over places": lambda x: F.cross_entropy(x, x.argmax(1), reduction="none").sum(1),
    "squares": lambda x: each(F.mse_loss(x, torch.zeros_like(x), reduction="none")),
    "in place": lambda x: each((x @ W).add_(1).tanh_().mul_(B)),
    "complex": lambda x: each(torch.view_as_complex(x.reshape(len(x), -1, 2)).abs()),
    "where": lambda x: each(torch.where(x > 0, x, torch.zeros_like(x))),
    "padded": lambda x: each(F.pad(x, (0, 0, 0, 2))[:, 1:]),
    "float": lambda x: each(x.double() @ W.double()),
    "eval batch norm": lambda x: each(F.batch_norm(x, B, B.square() + 1, training=False)),
    "repeated": lambda x: each(x.repeat(1, 2, 1)),
}
MIXING: dict[str, Loss] = {
    "mean of the batch": lambda x: each(x - x.mean(0, keepdim=True)),
    "detached mean": lambda x: each(x - x.detach().mean(0, keepdim=True)),
    "largest of all": lambda x: each(x / x.detach().abs().max()),
    "neighbour": lambda x: each(x + x.roll(1, 0)),
    "flipped": lambda x: each(x).flip(0),
    "running sum": lambda x: each(x.cumsum(0)),
    "softmax over examples": lambda x: each(x.softmax(0)),
    "examples times examples": lambda x: (x.flatten(1) @ x.flatten(1).T).sum(1),
    "wrong axis": lambda x: each(x.transpose(0, 1).contiguous()),
    "tokens as examples": lambda x: each(x).softmax(0),
    "weights as examples": lambda x: torch.einsum("nld,mld->nm", x, x).sum(1),
    "place": lambda x: each(x) * torch.arange(len(x)),
    "place, copied": placed,
    "a buffer of n rows": lambda x: each(x * W[: len(x), :, None]),
    "first is one": first_is_one,
    "first is zero": first_is_zero,
    "read": lambda x: each(x) * float(x.max()),
    "decided": lambda x: each(x) * (2 if bool((each(x) > 0).all()) else 3),
    "listed": lambda x: each(x) * max(x.flatten().tolist()),
    "numpy": lambda x: each(x) * float(np.asarray(x).max()),
    "by mask": lambda x: each(x) * len(x[x > 1]),
    "sorted": lambda x: each(x[each(x).argsort()]),
    "permuted": lambda x: x[torch.arange(len(x)).flip(0), x[:, :, 0].argmax(1)].sum(1),
    "only the first two": lambda x: each(torch.cat([x[:2].sin(), x[2:]])),
    "sum of losses": lambda x: each(x) + each(x).sum(),
    "mean loss": lambda x: each(x) * F.mse_loss(x, torch.zeros_like(x)),
    "all classes": lambda x: each(x) * F.cross_entropy(x.flatten(0, 1), x.argmax(-1).flatten()),
    "batch norm": lambda x: each(F.batch_norm(x, None, None, training=True)),
    "attention of examples": lambda x: each(F.scaled_dot_product_attention(*[x.transpose(0, 1)] * 3).transpose(0, 1)),
    "filled with the largest": lambda x: each(torch.empty_like(x).fill_(x.max())),
    "scattered": lambda x: each(torch.zeros_like(x).scatter(0, x.argsort(0), x)),
    "bias of examples": lambda x: each(torch.addmm(x[:, 0, 0], x[:, 0], W)),
    "constant product": lambda x: each(torch.addmm(x[:, 0], W, W)),
    "a matrix of its own for each": lambda x: each(torch.bmm(x, torch.stack([W * k for k in range(len(x))]))),
}


def data(n: int = N) -> Tensor:
    return torch.randn(n, N, N, generator=torch.Generator().manual_seed(1))


def proven(loss: Loss, x: Any, n: int = N) -> bool:
    proof = ValueProof({"x": x}, n)
    with proof.watching():
        losses = loss(x)
    return proof.keeps_apart(losses)


def is_apart(loss: Loss, x: Tensor) -> bool:
    """Whether each example has the same loss alone, whatever its place."""
    together = loss(x).double()
    alone = torch.cat([loss(x[i : i + 1])[:1].double() for i in range(len(x))])
    return bool(torch.allclose(together, alone, rtol=1e-4, atol=1e-5))


@pytest.mark.parametrize("name", APART)
def test_losses_that_are_apart_are_proven_to_be(name: str) -> None:
    assert is_apart(APART[name], data()), "the case itself"
    assert proven(APART[name], data())


@pytest.mark.parametrize("name", MIXING)
def test_nothing_is_claimed_of_losses_that_depend_on_others(name: str) -> None:
    assert not is_apart(MIXING[name], data()), "the case itself"
    assert not proven(MIXING[name], data())


@pytest.mark.parametrize("name", APART)
def test_a_mixed_input_is_proven_of_nothing(name: str) -> None:
    """Each rule passes on what it is told: no operation turns mixed values into some that are apart."""
    assert not proven(lambda x: APART[name](x - x.mean(0)), data())


@pytest.mark.parametrize("name", ["affine", "attention", "own order", "in place"])
def test_parts_of_a_dataset_are_followed(name: str) -> None:
    rows = torch.randn(3 * N, N, N)
    assert proven(APART[name], rows[N : 2 * N])
    assert not proven(lambda x: APART[name](x) * rows[: 3 * N : 3, 0, 0], rows[N : 2 * N])


def test_parts_of_the_same_rows_are_followed() -> None:
    rows = torch.randn(N, N + 1, N)
    batch = {"x": rows[:, :-1], "y": rows[:, 1:]}
    proof = ValueProof(batch, N)
    with proof.watching():
        losses = each((batch["x"] - batch["y"]).square())
    assert proof.keeps_apart(losses)


def test_what_is_known_of_a_storage_lives_as_long_as_it_does() -> None:
    """Another may get its number: what no operation made, NumPy's say, would be taken for examples' own."""
    x = data()
    proof = ValueProof({"x": x}, N)
    with proof.watching():
        base = x * 2
        view, number = base[:, 0], base.untyped_storage()._cdata
        del base
        gc.collect()
        assert number in proof._marks
        del view
        assert number not in proof._marks
        assert number not in proof._alive


def test_lists_in_a_batch_are_not_followed() -> None:
    assert not proven(lambda x: each(torch.as_tensor(x)), [[1.0], [2.0], [3.0], [4.0]])
    assert not proven(lambda x: each(torch.as_tensor(x)), np.ones((N, N)))


def test_one_storage_may_hold_examples_in_one_way_only() -> None:
    rows = torch.randn(N * N)
    batch = {"x": rows.view(N, N), "y": rows.view(N, N).T}
    proof = ValueProof(batch, N)
    with proof.watching():
        losses = batch["x"].sum(1)
    assert not proof.keeps_apart(losses)


@pytest.mark.parametrize(
    ("shape", "steps", "start", "found"),
    [
        ((4, 4, 4), (16, 4, 1), 0, (0, 1)),
        ((4, 4, 4), (4, 16, 1), 0, (1, 1)),
        ((16, 4), (4, 1), 0, (0, 4)),
        ((16, 3), (4, 1), 1, (0, 4)),
        ((3, 16, 4), (64, 4, 1), 0, (1, 4)),
        ((12, 4, 4), (16, 4, 1), 0, (0, 1)),
        ((4, 3, 4), (16, 4, 1), 4, (0, 1)),
        ((4, 4, 4), (16, 0, 1), 0, (0, 1)),
        ((4, 4, 4), (16, 4, 1), 4, None),  # the last token would be the next example's first
        ((3, 4, 4), (16, 4, 1), 0, None),  # not all examples
        ((4, 4, 4), (16, 4, 1), 16, None),  # not from the first
        ((2, 4, 4), (32, 4, 1), 0, None),  # every second
        ((64,), (1,), 0, (0, 16)),
        ((32,), (2,), 0, (0, 8)),
        ((21,), (3,), 0, None),
        ((4, 4), (20, 4), 0, None),  # a diagonal
    ],
)
def test_examples_are_found_in_views(shape: Any, steps: Any, start: int, found: Any) -> None:
    assert find_examples(shape, steps, start, Tag(16), N) == found
    if found is not None:  # by the definition
        offsets = start + sum(np.indices(shape)[k] * step for k, step in enumerate(steps))
        axis, inner = found
        assert np.array_equal(offsets // 16 % N, np.indices(shape)[axis] // inner % N)
