"""What is run again: vectorised where it can be, right where it cannot, refused where it is not the same again."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from fast_cases import leaving_as_it_came
from looped_models import D, Own, make_xy, squares
from odd_models import CORE, is_truth
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from sdi import Loop
from sdi.errors import CoverageError
from sdi.fast import Featurizer, featurize
from sdi.fast.follow import replay


class Gate(nn.Module):
    """A table that all examples share, behind a gate that is closed: the output does not depend on the table."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.lin = nn.Parameter(torch.zeros(1)), nn.Linear(D, D)

    def forward(self, s: Tensor, table: Tensor) -> Tensor:
        return torch.tanh(self.lin(s)) + self.gate * table


class Tabled(Own):
    def __init__(self) -> None:
        super().__init__(Gate())
        with torch.no_grad():
            self.core.gate.zero_()

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        table = torch.randn(h.shape[1], D, dtype=h.dtype, generator=torch.Generator().manual_seed(0))
        for _ in range(3):
            h = self.core(h, table)
        return h


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("lengths", [(6, 4), (4, 6)])
def test_a_shared_input_as_long_as_the_batch_is_not_split(lengths: tuple[int, int], memory: str) -> None:
    model = Tabled()
    run = Featurizer(model, squares, loop=CORE, memory=memory)
    for length in lengths:
        batch = make_xy(4, length=length)
        is_truth(run(batch), model, batch)


class Bias(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor) -> Tensor:
        return torch.tanh(s + self.bias)


def test_a_replayed_step_module_is_vectorised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "_one_by_one", None)
    model, batch = Own(Bias()), make_xy()
    is_truth(featurize(model, squares, batch, loop=CORE), model, batch)


class Told(nn.Module):
    """The step is told by an attribute, so that a call cannot be repeated."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.t = inner, 0

    def forward(self, s: Tensor) -> Tensor:
        return self.inner(s) * self.t


class Stepwise(Own):
    def __init__(self, native: bool) -> None:
        super().__init__(Told(nn.Linear(D, D) if native else Bias()))

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for t in range(int(batch["depth"][0])):
            self.core.t = 1 + t
            h = self.core(h)
        return h


@pytest.mark.parametrize("native", [False, True])
def test_what_is_not_the_same_again_is_refused_in_whatever_batch_it_shows(native: bool) -> None:
    model = Stepwise(native)
    run = Featurizer(model, squares, loop=CORE, memory="recompute")
    run({**make_xy(), "depth": torch.tensor([1, 1, 1])})
    with leaving_as_it_came(model), pytest.raises(CoverageError, match="another output when it is run again"):
        run({**make_xy(), "depth": torch.tensor([3, 3, 3])})


class Counting(Bias):
    """Counts its calls, from the first of a pass: no pass begins with what another has left."""

    t = 0

    def forward(self, s: Tensor) -> Tensor:
        self.t += 1
        return super().forward(s) / self.t


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_module_may_count_its_calls(memory: str) -> None:
    def from_the_first(model: Any, batch: Any) -> Tensor:
        vars(model.core).pop("t", None)
        return squares(model, batch)

    model, batch = Own(Counting()), make_xy()
    run = Featurizer(model, squares, loop=CORE, memory=memory)
    for _ in range(2):
        features = run(batch)
        assert "t" not in vars(model.core)
        is_truth(features, model, batch, from_the_first)
        del model.core.t


class Carrying(Own):
    def __init__(self, kind: type[nn.RNNBase], batch_first: bool) -> None:
        super().__init__(kind(D, D, num_layers=2, batch_first=batch_first))

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        turn = (lambda x: x) if self.core.batch_first else lambda x: x.transpose(0, 1)
        state = None
        for _ in range(3):
            y, state = self.core(turn(h), state)
            h = h + turn(y)
        last = state[0] if isinstance(state, tuple) else state
        return h + last.sum(dim=0)[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("kind", [nn.GRU, nn.LSTM])
@pytest.mark.parametrize(("n", "length"), [(3, 5), (4, 4), (2, 5)])
def test_states_of_recurrent_layers_have_their_batch_second(
    kind: type[nn.RNNBase], batch_first: bool, memory: str, n: int, length: int
) -> None:
    model, batch = Carrying(kind, batch_first), make_xy(n, length=length)
    is_truth(featurize(model, squares, batch, loop=CORE, memory=memory), model, batch)


@pytest.mark.parametrize("n", [4, 5])
def test_attentions_weights_have_their_batch_first(n: int) -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(D, 2)

        def forward(self, s: Tensor) -> Tensor:
            x = s.transpose(0, 1)
            y, weights = self.attn(x, x, x)
            return s + y.transpose(0, 1) + weights @ s

    model, batch = Own(Attending()), make_xy(n, length=4)
    is_truth(featurize(model, squares, batch, loop=CORE), model, batch)


def test_one_block_of_all_rows_with_the_batch_second_is_served_by_the_module_around() -> None:
    class Packing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attn = nn.MultiheadAttention(D, 2)

        def forward(self, s: Tensor) -> Tensor:
            rows, (n, length) = s.flatten(0, 1)[:, None], s.shape[:2]
            others = torch.block_diag(*[torch.ones(length, length)] * n) == 0
            return s + self.attn(rows, rows, rows, attn_mask=others, need_weights=False)[0].view_as(s)

    model, batch = Own(Packing()), make_xy(3, length=4)
    is_truth(featurize(model, squares, batch, loop=CORE), model, batch)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_around_more_than_the_body_are_right(memory: str, reentrant: bool) -> None:
    class Plain(Own):
        def body(self, x: Tensor) -> Tensor:
            return torch.tanh(self.core(x)) * x.cos()

        def loop(self, h: Tensor, batch: Any) -> Tensor:
            for _ in range(3):
                h = self.body(h)
            return h

    class Checkpointed(Plain):
        def body(self, x: Tensor) -> Tensor:
            return checkpoint(super().body, x, use_reentrant=reentrant)

    batch = make_xy()
    is_truth(featurize(Checkpointed(), squares, batch, loop=CORE, memory=memory), Plain(), batch)


def test_a_checkpoint_of_what_counts_its_calls_is_refused_in_our_words() -> None:
    """It is run as a non-reentrant one, which notices: PyTorch's own error would not say what to do."""

    class Counting(Own):
        count = 0

        def body(self, x: Tensor) -> Tensor:
            self.count += 1
            return torch.tanh(self.core(x)) if self.count < 4 else self.core(x)

        def loop(self, h: Tensor, batch: Any) -> Tensor:
            for _ in range(3):
                h = checkpoint(self.body, h, use_reentrant=True)
            return h

    with pytest.raises(CoverageError, match="own activation checkpoint computes something else"):
        featurize(Counting(), squares, make_xy(), loop=CORE, memory="hooks")


class Scaled(nn.Module):
    """Two layers and a parameter of its own: a compiled graph with several hooks in it."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.w = nn.Linear(D, 2 * D), nn.Linear(2 * D, D), nn.Parameter(torch.ones(D))

    def forward(self, s: Tensor) -> Tensor:
        return s + self.b(torch.relu(self.a(s * self.w)))


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_compiled_modules_are_run_as_they_were_written(memory: str) -> None:
    model, batch = Own(Scaled()), make_xy()
    model.core.compile(backend="eager")
    is_truth(featurize(model, squares, batch, loop=CORE, memory=memory), Own(Scaled()), batch)


class Adapted(Own):
    """Another adapter at every step, and as many steps as the batch says."""

    def __init__(self) -> None:
        super().__init__(nn.ModuleList([nn.Linear(D, D) for _ in range(3)]))
        self.step = nn.Identity()

    def loop(self, h: Tensor, batch: Any) -> Tensor:
        for t in range(int(batch["depth"][0])):
            h = torch.tanh(self.core[t](self.step(h)))
        return h


def test_a_parameter_may_be_left_out_by_any_batch() -> None:
    """By the first, too: autograd does not reach it either, so it has zeros there."""
    model, x = Adapted(), make_xy()
    run = Featurizer(model, squares, loop=Loop(body="core", step="step"))
    for depth in (2, 3, 2, 1, 3):
        batch = {**x, "depth": torch.tensor([depth] * 3)}
        is_truth(run(batch), model, batch)


def test_a_loss_that_changes_the_mode_leaves_it_as_it_was() -> None:
    model = Own(nn.Sequential(nn.Linear(D, D), nn.Dropout(0.5))).train()
    with leaving_as_it_came(model):
        featurize(model, lambda m, b: squares(m.eval(), b), make_xy(), loop=CORE)
    assert all(module.training for module in model.modules())


class LeavesAux(nn.Module):
    """Has to be run again whole, as its own weight meets no batch axis; and leaves a value that the loss uses."""

    def __init__(self) -> None:
        super().__init__()
        self.scale, self.aux = nn.Parameter(torch.ones(D)), torch.zeros(())

    def forward(self, s: Tensor) -> Tensor:
        s = torch.tanh(s + (s.transpose(0, 1).sin() * self.scale).transpose(0, 1))
        self.aux = s.square().flatten(1).mean(1)
        return s


def with_aux(model: nn.Module, batch: Any) -> Tensor:
    return squares(model, batch) + torch.where(batch["x"].flatten(1)[:, 0] > 0.1, model.core.aux, 0)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_value_that_a_replayed_call_leaves_on_its_module_is_an_output_as_well(memory: str) -> None:
    model = Own(LeavesAux())
    for n in (4, 3):
        batch = make_xy(n, length=2)
        with leaving_as_it_came(model):
            features = featurize(model, with_aux, batch, loop=CORE, memory=memory)
        is_truth(features, model, batch, with_aux)


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_hooks_on_what_a_replayed_call_returns_beside_a_value_that_it_leaves_are_refused(memory: str) -> None:
    class Hooked(Own):
        def loop(self, h: Tensor, batch: Any) -> Tensor:
            for _ in range(3):
                h = self.core(h)
                h.register_hook(lambda g: 0.5 * g)
            return h

    model = Hooked(LeavesAux())
    with pytest.raises(CoverageError, match="leaves a value on itself, and a hook stands on what it returns"):
        Featurizer(model, with_aux, loop=CORE, memory=memory, audit="off")(make_xy(4, length=2))
