"""What a pass keeps, and for how long: no more than its memory mode says, and nothing when it has ended."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from sdi import Loop
from sdi.fast import Featurizer
from sdi.fast.follow.left_behind import LeftBehind
from sdi.fast.guard.restore_attributes import attributes_put_back

TAU = 12


class Core(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.narrow(torch.tanh(self.wide(x)))


class Looped(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.core = Core()

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(TAU):
            x = x + self.core(x)
        return x


def loss(model: Any, batch: Any) -> Tensor:
    out: Tensor = model(batch["x"]).square().mean((1, 2))
    return out


def featurizer(memory: str, audit: str) -> tuple[Featurizer, Any]:
    torch.manual_seed(0)
    model = Looped().double()
    batch = {"x": torch.randn(3, 5, 4, dtype=torch.float64)}
    return Featurizer(model, loss, loop=Loop(body="core", step="core"), memory=memory, audit=audit), batch


@pytest.fixture
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_under_recompute_the_activations_of_one_step_live_at_a_time() -> None:
    take, batch = featurizer("recompute", "off")
    seen: list[StorageWeakRef] = []
    alive: list[int] = []

    def on_call(module: nn.Module, args: Any, output: Tensor) -> None:
        seen.append(StorageWeakRef(args[0].untyped_storage()))  # type: ignore[no-untyped-call]
        alive.append(sum(not storage.expired() for storage in seen))  # type: ignore[no-untyped-call]

    take.model.core.narrow.register_forward_hook(on_call)
    take(batch)
    assert len(seen) == 2 * TAU
    assert max(alive) <= 2  # this step's, and the one's before until its graph is let go


@pytest.mark.parametrize("audit", ["off", "first"])
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
@pytest.mark.usefixtures("without_collector")
def test_a_pass_leaves_no_tensor_for_the_garbage_collector(memory: str, audit: str) -> None:
    take, batch = featurizer(memory, audit)
    take(batch)  # what the first pass finds out is kept
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    take(batch)
    gc.collect()
    left = {type(x).__name__ for x in gc.garbage}
    assert not left & {"Tensor", "Parameter", "Tracer", "RowProof"}
    assert not {x for x in left if "Backward" in x}


def test_what_a_call_leaves_is_told_by_the_tensor_itself() -> None:
    core = Core()
    core.state, core.other, core.many = torch.ones(2), torch.ones(2), [torch.ones(2)]
    left = LeftBehind(list(core.modules()))
    assert left.tensors() == []
    assert left.in_containers() is None
    core.state = torch.ones(2)
    core.wide.note = 3
    assert [place for place, _ in left.tensors()] == [(core, "state")]
    core.many.append(torch.ones(2))
    assert left.in_containers() == (core, "many")


class Remembers(nn.Module):
    """Each call leaves something of its own behind, also when it is run again."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.calls, self.seen, self.names = 0, [], {}

    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(x * self.weight)
        self.last = y.detach().mean()
        return y


@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_what_a_call_leaves_on_its_module_is_there_for_the_loss_and_for_nobody_after(memory: str) -> None:
    """A pass that began with what another had left would depend on the order of batches, audits among them."""
    model, seen = Looped(), []
    model.core = Remembers()
    batch = {"x": torch.randn(3, 5, 4)}

    def looking(model: Any, batch: Any) -> Tensor:
        losses = loss(model, batch)
        seen.append(model.core.last.clone())
        return losses

    Featurizer(model, looking, loop=Loop(body="core", step="core"), memory=memory, audit="off")(batch)
    assert not hasattr(model.core, "last")
    looking(model, batch)
    assert all(torch.equal(last, seen[-1]) for last in seen)


def test_lists_dicts_and_names_are_put_back_after_an_error_too() -> None:
    core = Remembers()
    core.seen, core.names, core.rest = [1], {"a": 2}, deque([3])
    held = core.seen, core.names, core.rest
    with pytest.raises(ZeroDivisionError), attributes_put_back([core]):  # noqa: PT012
        core.calls, core.new = 7, 8
        core.seen.append(4)
        core.names["b"] = 5
        core.rest = deque()
        raise ZeroDivisionError
    assert (core.seen, core.names, core.rest, core.calls) == ([1], {"a": 2}, deque([3]), 0)
    assert all(now is before for now, before in zip((core.seen, core.names, core.rest), held, strict=True))
    assert not hasattr(core, "new")
