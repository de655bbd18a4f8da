"""What a pass keeps, and for how long: no more than its memory mode says, and nothing when it has ended."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from sdi import Loop
from sdi.fast import Featurizer
from sdi.fast.follow.left_behind import LeftBehind

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
    assert not left & {"Tensor", "Parameter", "Tracer", "RowProof"} and not {x for x in left if "Backward" in x}


def test_what_a_call_leaves_is_told_by_the_tensor_itself() -> None:
    core = Core()
    core.state, core.other, core.many = torch.ones(2), torch.ones(2), [torch.ones(2)]
    left = LeftBehind(list(core.modules()))
    assert left.tensors() == [] and left.in_containers() is None
    core.state = torch.ones(2)
    core.wide.note = 3
    assert [place for place, _ in left.tensors()] == [(core, "state")]
    core.many.append(torch.ones(2))
    assert left.in_containers() == (core, "many")
