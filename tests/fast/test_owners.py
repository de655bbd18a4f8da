"""Rows without a batch axis: each is given to the example whose loss it acts on, in every batch anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from looped_models import D, Own, make_xy, squares
from odd_models import CORE, is_truth
from torch import Tensor, nn

from sdi import SketchMap
from sdi.fast import Featurizer, body_shapes, featurize
from sdi.fast.rows.owners import by_example, find_owners, in_order, loss_weights
from sdi.loop import Loop


class Scale(nn.Module):
    """A norm of the user's own, which is replayed."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor) -> Tensor:
        return self.w * s / (s.square().mean(dim=-1, keepdim=True) + 1).sqrt()


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.own, self.norm, self.lin = Scale(), nn.LayerNorm(D), nn.Linear(D, D)

    def forward(self, s: Tensor) -> Tensor:
        return s + torch.tanh(self.lin(self.norm(self.own(s))))


class Experts(nn.Module):
    """Every token goes to one of two experts, with the tokens of all examples that go there."""

    def __init__(self, expert: Callable[[], nn.Module]) -> None:
        super().__init__()
        self.experts, self.to = nn.ModuleList([expert(), expert()]), torch.zeros(0, 0)

    def forward(self, s: Tensor) -> Tensor:
        for k, expert in enumerate(self.experts):
            rows = self.to == k
            s = s.masked_scatter(rows[..., None], torch.tanh(expert(s[rows]))) if rows.any() else s
        return s


class Routed(Own):
    def loop(self, h: Tensor, batch: Any) -> Tensor:
        self.core.to = batch["to"]
        return super().loop(h, batch)


class Packed(Own):
    """Sequences without padding, one after another: (total, d), or one block of that."""

    def __init__(self, block: bool) -> None:
        super().__init__(Block())
        self.block = block

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        inside = torch.arange(h.shape[1]) < batch["lengths"][:, None]
        s = super().loop(h[inside][None] if self.block else h[inside], batch)
        return torch.zeros_like(h).masked_scatter(inside[..., None], s[0] if self.block else s)


class Pairs(Own):
    """Two forms of every example: all of the first kind, then all of the second; or side by side."""

    def __init__(self, side_by_side: bool) -> None:
        super().__init__(Block())
        self.side_by_side = side_by_side

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        if self.side_by_side:
            return super().loop(torch.stack([h, 2 * h], dim=1).flatten(0, 1), batch).unflatten(0, (-1, 2)).sum(dim=1)
        first, second = super().loop(torch.cat([h, 2 * h]), batch).chunk(2)
        return first - 3 * second


class Active(Own):
    """Only examples that have not halted are computed."""

    def __init__(self) -> None:
        super().__init__(Block())

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for t in range(3):
            on = (batch["lengths"] > t + 1).nonzero().flatten()
            h = h.index_copy(0, on, self.core(h[on])) if len(on) else h
        return h


LENGTHS = [{"lengths": torch.tensor(x)} for x in ([3, 3, 3, 3], [1, 5, 2, 4], [4, 4, 2, 2])]
ROUTES = [
    {"to": torch.tensor(x)}
    for x in (
        [[0, 1, 1, 1, 1]] * 4,  # as many rows as examples, one of each
        [[0, 0, 1, 1, 1], [1] * 5, [0, 0, 1, 1, 1], [1] * 5],  # as many again, two of two
        [[0, 0, 1, 1, 0], [1] * 5, [1, 1, 1, 1, 1], [0, 1, 0, 1, 1]],
        [[0] * 5] * 4,  # nobody goes to the other
    )
]
MODELS: dict[str, tuple[Callable[[], nn.Module], list[dict[str, Tensor]]]] = {
    "experts": (lambda: Routed(Experts(lambda: nn.Linear(D, D))), ROUTES),
    "experts of several layers": (lambda: Routed(Experts(Block)), ROUTES),
    "packed": (lambda: Packed(block=False), LENGTHS),
    "packed in one block": (lambda: Packed(block=True), LENGTHS),
    "pairs": (lambda: Pairs(side_by_side=False), [{}]),
    "pairs side by side": (lambda: Pairs(side_by_side=True), [{}]),
    "active": (Active, LENGTHS),
}


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("m", [None, 16])
@pytest.mark.parametrize("name", MODELS)
def test_every_row_is_its_own_examples(name: str, memory: str, m: int | None) -> None:
    """The audit sees the first batch only: the later ones must be right without it."""
    build, batches = MODELS[name]
    model = build()
    sketch = None if m is None else SketchMap.draw(body_shapes(model, CORE), m)
    run = Featurizer(model, squares, loop=CORE, memory=memory, sketch=sketch)
    whole = Featurizer(model, squares, loop=CORE, audit="off")
    for more in batches:
        batch = {**make_xy(4, length=5), **more}
        features, dense = run(batch), whole(batch)
        is_truth(dense, model, batch)
        if sketch is not None:
            parts = {b.name: dense.g[:, dense.block(b.name)].reshape(4, *b.shape) for b in dense.blocks}
            error = abs(features.g - sketch.apply(parts)).max()
            assert error <= 1e-10 * abs(dense.values).max() * dense.values.shape[-1]


def test_rows_that_examples_share_are_served_by_the_module_around_or_by_name() -> None:
    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(D, D)

        def forward(self, s: Tensor) -> Tensor:
            return s + self.lin(torch.ones(3, D, dtype=s.dtype)).mean(dim=0)

    model, batch = Own(Mean()), make_xy(4)
    is_truth(featurize(model, squares, batch, loop=CORE), model, batch)

    class Bare(Own):
        def loop(self, h: Tensor, batch: Any) -> Tensor:
            return h + self.core(torch.ones(3, D, dtype=h.dtype)).mean(dim=0)

    model = Bare()
    is_truth(featurize(model, squares, batch, loop=CORE), model, batch)


def test_states_that_are_vectors_cost_no_second_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdi.fast.follow import one_pass as engine

    monkeypatch.setattr(engine, "loss_weights", None)
    model, batch = Own(), make_xy(4, length=None)
    is_truth(featurize(model, squares, batch, loop=CORE), model, batch)
    with pytest.raises(TypeError, match="NoneType"):
        featurize(Packed(block=False), squares, {**make_xy(4, length=5), **LENGTHS[1]}, loop=CORE)


@pytest.mark.parametrize("n", [2, 32, 33, 1000])
def test_no_two_examples_have_one_weight(n: int) -> None:
    weights = loss_weights(n)
    assert len(set(weights.tolist())) == n
    sizes = torch.rand(n, dtype=torch.float64) + 0.1
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    owners, single = find_owners(sizes * weights[order], sizes, n)
    assert single
    assert owners.equal(order)
    mixed = sizes * weights[order]
    mixed[1] = sizes[1] * (weights[0] * weights[1]).sqrt()  # neither's
    assert not find_owners(mixed, sizes, n)[1]


def test_rows_of_nobody_are_left_out() -> None:
    zeros, weights = torch.tensor([0.0, 2.0, 0.0, 2.0]).double(), loss_weights(2)
    owners, single = find_owners(torch.stack([zeros[0], 2 * weights[1], zeros[2], 2 * weights[0]]), zeros, 2)
    assert single
    assert owners.tolist() == [-1, 1, -1, 0]
    assert not in_order(owners, 2)
    assert by_example(torch.tensor([5.0, 6.0, 7.0, 8.0]), owners, 2).tolist() == [[8.0], [6.0]]


@pytest.mark.slow
def test_rows_that_are_in_doubt_only_once_a_unit_was_run_again_are_found_out_by_values() -> None:
    """A residual stream shows the rows of `join` before `cell`, which is called for each example, is run again."""

    class EachAlone(Own):
        def __init__(self) -> None:
            super().__init__()
            self.join = nn.Linear(D, D, dtype=torch.float64)

        def loop(self, h: Tensor, batch: Any) -> Tensor:
            for _ in range(3):
                h = self.join(h)
                h = torch.tanh(h + torch.cat([self.core(x[None]) for x in h]))
            return h

    model, batch = EachAlone(), make_xy(4)
    loop = Loop(body=["join", "core"], step="join")
    is_truth(featurize(model, squares, batch, loop=loop, memory="recompute"), model, batch)
