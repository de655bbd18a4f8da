"""Models that users bring: halting, sorting, implicit layers, hooks, random states. Right, or refused; never wrong."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fast_cases import assert_near, features_of, row_norms
from looped_models import D, Own, make, make_xy, square_loss, squares
from odd_models import CORE, ODD, is_truth, unseen
from torch import Tensor, nn

from sdi import Loop, SketchMap
from sdi.errors import AuditError, CoverageError
from sdi.fast import Featurizer, body_shapes, featurize


class Sorted(Own):
    """Longest first, as packed sequences want it, and back in the end."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        order = batch["lengths"].argsort(descending=True)
        return super().loop(h[order], batch)[order.argsort()]


class Halting(Own):
    """Only examples that have not halted go on, their tokens in one row after another."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for t in range(int(batch["halts"].max())):
            on = (batch["halts"] > t).nonzero().flatten()
            h = h.index_copy(0, on, torch.tanh(self.core(h[on].flatten(0, 1))).view(len(on), *h.shape[1:]))
        return h


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_examples_in_another_order_are_given_their_own_rows_in_every_batch(memory: str) -> None:
    model = Sorted()
    run = Featurizer(model, squares, loop=CORE, memory=memory)
    kept, turned = ({**make_xy(4), "lengths": torch.tensor(x)} for x in ([4, 3, 2, 1], [3, 5, 4, 1]))
    for batch in (kept, kept, turned, kept, turned):  # batches 3 and 5 are not audited
        is_truth(run(batch), model, batch)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_rows_that_stand_for_other_examples_than_before_are_given_to_these(memory: str) -> None:
    """24 rows are 6 of each of 4 examples; 12 rows would be 3, but are 6 of 2."""
    model, x = Halting(), make_xy(4, length=6)
    run = Featurizer(model, squares, loop=CORE, memory=memory)
    for halts in ([3, 3, 3, 3], [3, 1, 3, 1], [1, 2, 3, 1]):
        batch = {**x, "halts": torch.tensor(halts)}
        is_truth(run(batch), model, batch)
    assert run.coverage is not None
    assert {row.route for row in run.coverage} == {"linear"}


class Positioned(nn.Module):
    """A table of positions: its gradients have no batch axis."""

    def __init__(self) -> None:
        super().__init__()
        self.pos, self.lin = nn.Embedding(16, D), nn.Linear(D, D)

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(self.lin(s + self.pos(torch.arange(s.shape[1]))))


@pytest.mark.slow
@pytest.mark.parametrize(("n", "length"), [(3, 5), (3, 6), (4, 8), (4, 4)])
@pytest.mark.parametrize("m", [None, 16])
def test_what_is_not_the_batch_axis_is_served_by_the_module_around(n: int, length: int, m: int | None) -> None:
    model, batch = Own(Positioned()), make_xy(n, length=length)
    shapes = body_shapes(model, CORE)
    sketch = SketchMap.keep(shapes) if m is None else SketchMap.draw(shapes, m)
    features = featurize(model, squares, batch, loop=CORE, sketch=sketch)
    whole = featurize(model, squares, batch, loop=CORE)
    is_truth(whole, model, batch)
    parts = {b.name: whole.values[..., whole.block(b.name)].reshape(n, 3, *b.shape) for b in whole.blocks}
    assert_near(features.values, sketch.apply(parts), row_norms(whole.values), "sketch")


class Leaking(Own):
    """The weight is also used in a way that is not seen."""

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for _ in range(3):
            h = torch.tanh(self.core(h))
            h = h + F.linear(h, unseen(self.core.weight))
        return h


@pytest.mark.parametrize(
    ("dtype", "scale"), [("float32", 1.0), ("bfloat16", 1.0), ("float32", 1e-28), ("float32", 1e25), ("float64", 1e-80)]
)
def test_the_audit_sees_a_leak_in_every_precision_and_at_every_scale(dtype: str, scale: float) -> None:
    kind = getattr(torch, dtype)
    with pytest.raises(AuditError, match=r"'core\.weight' differs from autograd's"):
        featurize(Leaking().to(kind), lambda m, b: squares(m, b) * scale, make_xy(dtype=kind), loop=CORE)


class Remembering(nn.Module):
    """An extra loss is left on the module."""

    def __init__(self, d: int) -> None:
        super().__init__()
        self.lin = nn.Linear(d, d)

    def forward(self, s: Tensor) -> Tensor:
        s = torch.tanh(self.lin(s))
        self.extra = s.square().flatten(1).mean(dim=1)
        return s


class Summed(Own):
    def loop(self, h: Tensor, batch: Any) -> Tensor:
        self.extra: Any = 0
        for _ in range(4):
            h = self.core(h)
            self.extra = self.extra + self.core.extra
        return h


def with_extra(model: Any, batch: Any) -> Tensor:
    return squares(model, batch) + model.extra


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_value_that_a_block_leaves_on_itself_for_the_loss_keeps_its_gradient(memory: str) -> None:
    model, batch = Summed(Remembering(D)), make_xy(4)
    for audit in ("first", "off"):
        features = featurize(model, with_extra, batch, loop=CORE, memory=memory, audit=audit)
        is_truth(features, model, batch, with_extra)


class Listing(Remembering):
    def forward(self, s: Tensor) -> Tensor:
        s = super().forward(s)
        self.kept = [*getattr(self, "kept", []), self.extra] if hasattr(self, "kept") else [self.extra]
        return s


def test_values_left_in_a_list_are_refused_under_recompute_by_name() -> None:
    class Listed(Summed):
        def loop(self, h: Tensor, batch: Any) -> Tensor:
            self.core.kept = []
            out = super().loop(h, batch)
            self.extra = torch.stack(self.core.kept).sum(dim=0)
            return out

    model, batch = Listed(Listing(D)), make_xy(4)
    is_truth(featurize(model, with_extra, batch, loop=CORE, memory="hooks"), model, batch, with_extra)
    with pytest.raises(CoverageError, match=r"Listing leaves tensors in its attribute 'kept'.*memory='hooks'"):
        featurize(model, with_extra, batch, loop=CORE, memory="recompute", audit="off")


@pytest.mark.slow
def test_a_run_that_switches_to_recompute_is_audited_again() -> None:
    model = Summed(Remembering(64), 64)
    run = Featurizer(model, with_extra, loop=CORE, budget=2 << 20)
    small = make_xy(2)
    is_truth(run(small), model, small, with_extra)
    audited = run.audited
    large = make_xy(8, length=256)
    is_truth(run(large), model, large, with_extra)
    assert (audited, run.audited, run.memory.recompute) == (2, 8, True)


@pytest.mark.slow
def test_what_was_shared_before_is_not_cut_when_a_batch_is_split() -> None:
    """One weight per position: eight of them, like the examples of the second batch."""

    class Long(Own):
        def loop(self, h: Tensor, batch: Any) -> Tensor:
            for _ in range(60):
                h = torch.tanh(self.core(h))
            return h

    def loss(model: Any, batch: Any) -> Tensor:
        return (model(batch).square().mean(dim=-1) * batch["weight"]).mean(dim=-1)

    model = Long(d=64)
    run = Featurizer(model, loss, loop=CORE, memory="recompute", budget=1 << 20)
    for n in (4, 8):
        batch = {**make_xy(n, length=8), "weight": torch.arange(1.0, 9.0, dtype=torch.float64)}
        is_truth(run(batch), model, batch, loss)
    assert run.memory.rows in (1, 2, 4)


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("name", ODD)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_it_is_right_and_passes_the_audit(name: str, memory: str) -> None:
    model, batch = ODD[name]().eval(), make_xy()
    torch.manual_seed(3)
    is_truth(featurize(model, squares, batch, loop=CORE, memory=memory), model, batch)


@pytest.mark.parametrize("name", [name for name in ODD if name != "random start"])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_part_of_a_batch_is_served_as_the_whole_is(name: str) -> None:
    """Also by a featurizer that has seen nothing else: a module that only the whole calls is not taken for idle."""
    model, batch = ODD[name]().eval(), make_xy(5)
    whole = featurize(model, squares, batch, loop=CORE)
    alone = Featurizer(model, squares, loop=CORE)
    before = alone.plan
    for i in (1, 4):
        one = alone.alone({key: x[i : i + 1] for key, x in batch.items()})
        assert_near(one.values, whole.values[i : i + 1], row_norms(one.values), f"example {i}")
    assert alone.plan is before
    cut = Featurizer(model, squares, loop=CORE, audit="off")
    cut.memory.rows = 2
    assert_near(cut(batch).values, whole.values, row_norms(whole.values), "cut by a budget")


def test_a_batch_may_begin_with_what_all_examples_share() -> None:
    model = Own()
    batch = {"temperature": torch.ones(1), **make_xy()}
    is_truth(featurize(model, squares, batch, loop=CORE), model, batch)


def test_a_batch_of_any_kind_is_audited_without_being_cut() -> None:
    def loss(model: Any, batch: Any) -> Tensor:
        return squares(model, batch[0]())

    assert featurize(Own(), loss, [make_xy], loop=CORE).values.shape[0] == 3
    with pytest.raises(AuditError, match="mixes examples"):
        featurize(Own(), lambda m, b: (each := loss(m, b)) * each.mean(), [make_xy], loop=CORE)


def test_large_buffers_and_shrinking_tables_are_put_back() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin, self.table = nn.Linear(D, D), nn.Embedding(4, D, max_norm=0.1)
            self.register_buffer("seen", torch.zeros(520, 256, dtype=torch.float64))  # more than 1 MiB

        def forward(self, s: Tensor) -> Tensor:
            with torch.no_grad():
                self.seen[0] += self.counts
            return torch.tanh(self.lin(s)) + self.table(torch.zeros(len(s), s.shape[1], dtype=torch.long))

    model = Own(Counting()).eval()
    before = model.core.table.weight.detach().clone()
    loop = Loop(body="core.lin", step="core")
    for counts in (0, 1, 1):
        model.core.counts = counts
        run = Featurizer(model, squares, loop=loop)
        run(make_xy())
        assert not model.core.seen.any()
        assert torch.equal(model.core.table.weight, before)


def test_what_cannot_be_run_again_is_refused_in_words() -> None:
    class Stepping(nn.Module):
        """One gate per step, counted by the module itself."""

        def __init__(self) -> None:
            super().__init__()
            self.gates, self.t = nn.Parameter(torch.ones(3, D)), 0

        def forward(self, s: Tensor) -> Tensor:
            self.t += 1
            return torch.tanh(s * self.gates[self.t - 1])

    with pytest.raises(CoverageError, match=r"'core' cannot be run again as it was called \(IndexError: .*keep state"):
        featurize(Own(Stepping()), squares, make_xy(), loop=CORE)
    with torch.inference_mode(), pytest.raises(RuntimeError, match=r"cannot be taken under torch\.inference_mode"):
        featurize(Own(), squares, make_xy(), loop=CORE)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_under_recompute_two_examples_at_a_time_are_audited(memory: str) -> None:
    """Autograd's graph of them all is what recompute is meant to avoid."""
    seen: list[int] = []

    def loss(model: Any, batch: Any) -> Tensor:
        if any(p.requires_grad for p in model.core.parameters()):  # autograd's own pass
            seen.append(len(batch["x"]))
        return square_loss(model, batch)

    features_of(make(nn.Linear(D, D)), make_xy(7), loss, memory=memory)
    assert seen == ([7] if memory == "hooks" else [2, 2, 2, 1])
    with pytest.raises(AuditError, match="divided by the size of the batch"):
        features_of(make(nn.Linear(D, D)), make_xy(7), lambda m, b: square_loss(m, b) / len(b["x"]), memory=memory)
