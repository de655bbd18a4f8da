"""Wrapped models (DistributedDataParallel, DataParallel, torch.compile, fully_shard) against the plain one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
import torch.distributed as dist
from attribution_cases import World, files, world
from fast_cases import leaving_as_it_came
from looped_models import BODY, LOOP, make, make_xy, square_loss
from share_cases import ENDED, SHARD, run_ranks
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

import sdi
import sdi.fast
from sdi.fast.gather import gathered
from sdi.inputs.unwrap import is_dtensor, unwrapped_model
from sdi.run.runs import Run

__all__ = ["world"]
Wrap = Callable[[nn.Module], nn.Module]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[None]:
    """A torch.distributed job of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")  # type: ignore[return-value]


def _unchanged(module: nn.Module, inputs: Any, output: Any) -> None:
    """A hook of the user's."""


WRAPS: dict[str, Wrap] = {
    "ddp": DistributedDataParallel,
    "data parallel": DataParallel,
    "compiled": compiled,
    "ddp of compiled": lambda model: DistributedDataParallel(compiled(model)),
    "compiled ddp": lambda model: compiled(DistributedDataParallel(model)),
}


def sharded(model: nn.Module) -> nn.Module:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return fully_shard(model, mesh=mesh)  # type: ignore[return-value]


def fsdp1(model: nn.Module) -> nn.Module:
    from torch.distributed.fsdp import FullyShardedDataParallel

    return FullyShardedDataParallel(model, device_id=torch.device("cpu"))


@pytest.mark.slow
@pytest.mark.parametrize("memory", ["hooks", "recompute"])
def test_a_wrapped_model_has_the_features_and_names_of_the_plain_one(job: None, memory: str) -> None:
    model, batch = make(nn.Linear(6, 6), norm=nn.LayerNorm(6)), make_xy()
    plain = sdi.fast.featurize(model, square_loss, batch, loop=LOOP, memory=memory)
    wrapped = DistributedDataParallel(deepcopy(model))
    with leaving_as_it_came(wrapped):
        features = sdi.fast.featurize(wrapped, square_loss, batch, loop=LOOP, memory=memory)
    assert features.blocks == plain.blocks
    assert features.outside is not None
    assert plain.outside is not None
    np.testing.assert_allclose(features.values, plain.values, rtol=1e-10, atol=0)
    np.testing.assert_allclose(features.outside, plain.outside, rtol=1e-10, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("wrap", WRAPS)
def test_the_plain_model_is_found_in_every_wrapper(job: None, wrap: str) -> None:
    model = make(nn.Linear(6, 6))
    assert unwrapped_model(WRAPS[wrap](model)) is model


@pytest.mark.slow
def test_every_verb_takes_the_plain_model_of_a_wrapped_one() -> None:
    model, batch = make(nn.Linear(6, 6)), make_xy()
    wrapped = DataParallel(model)
    assert sdi.fast.body_shapes(wrapped, BODY) == {"core.weight": (6, 6), "core.bias": (6,)}
    assert [row.parameter for row in sdi.fast.coverage(wrapped, square_loss, batch, loop=BODY)] == [
        "core.weight",
        "core.bias",
    ]
    assert sdi.find_loops(wrapped, square_loss, batch)[0].loop.step == "core"
    before = model.core.weight.clone()
    with sdi.fast.weights_kept(wrapped):
        state = {name: w + 1 for name, w in model.state_dict().items()}
        assert sdi.fast.with_weights(wrapped, state) is model
        assert torch.equal(model.core.weight, before + 1)
    assert torch.equal(model.core.weight, before)


def test_a_training_run_takes_the_plain_model_of_a_wrapped_one() -> None:
    model = make(nn.Linear(6, 6))
    for given in (DataParallel(model), lambda: DataParallel(model)):
        run = sdi.TrainingRun(given, square_loss, BODY, [make_xy()], optimiser=sdi.SGD(), rate=0.1)
        assert type(run.make_model()) is type(model)


def test_a_module_with_a_child_named_module_is_not_taken_for_a_wrapper() -> None:
    class Holder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.module = nn.Linear(2, 2)

    holder = Holder()
    assert unwrapped_model(holder) is holder


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's own
@pytest.mark.parametrize(
    ("shard", "found"),
    [
        (sharded, r"parameter 'read.weight' is a DTensor"),
        (fsdp1, r"module 'model' is FullyShardedDataParallel"),
        (lambda model: compiled(sharded(model)), r"parameter 'read.weight' is a DTensor"),
    ],
)
def test_a_model_cut_up_over_ranks_is_refused_with_the_remedy(job: None, shard: Wrap, found: str, world: World) -> None:
    cut = shard(make(nn.Linear(6, 6)))
    words = (
        rf"^model must be whole on every rank, got one that is cut up over ranks \({found}\); give the model as it was"
    )
    with pytest.raises(ValueError, match=words):
        sdi.fast.featurize(cut, square_loss, make_xy(), loop=BODY)
    with pytest.raises(ValueError, match=words):
        sdi.attribute(cut, **world.options(store=world.store, ranks=False))
    assert not world.store.exists()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_ranks_with_wrapped_models_leave_the_files_of_one_process_with_the_plain_model(world: World) -> None:
    """Also where the ranks have unlike numbers of batches: a wrapped forward pass would wait for the other rank."""
    world.attribute(store=world.folder / "whole", shard=SHARD)
    plain = world.model

    def wrap() -> None:
        world.model = DistributedDataParallel(plain)  # type: ignore[assignment]

    assert run_ranks(world, 2, {0: wrap, 1: wrap}) == [ENDED, ENDED]
    assert files(world.store) == files(world.folder / "whole")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_ranks_gather_a_model_that_is_cut_up_over_them_and_leave_the_files_of_one_process(world: World) -> None:
    world.attribute(store=world.folder / "whole", shard=SHARD)
    plain = world.model

    def cut() -> None:
        for block in plain.children():
            sharded(block)
        world.model = sharded(plain)  # type: ignore[assignment]
        assert any(len(p.to_local()) < len(p) for p in world.model.parameters())

    assert run_ranks(world, 2, {0: cut, 1: cut}, lambda rank: {"audit": "every"}) == [ENDED, ENDED]
    assert files(world.store) == files(world.folder / "whole")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch's own
@pytest.mark.parametrize("after", ["nothing", "a forward pass"])
def test_the_copy_of_a_cut_model_is_the_plain_one_and_the_cut_one_stays(job: None, after: str) -> None:
    plain = make(nn.Linear(6, 6), norm=nn.LayerNorm(6))
    plain.core.register_forward_hook(_unchanged)
    plain.aside = [plain.core]  # type: ignore[assignment]
    cut = deepcopy(plain)
    sharded(cut.core)
    sharded(cut)
    if after == "a forward pass":  # which leaves some parameters whole until they are needed no more
        square_loss(cut, make_xy())
        assert not any(is_dtensor(p) for p in cut.read.parameters())
        copy = gathered(cut)
    else:
        with leaving_as_it_came(cut):
            copy = gathered(cut)
    assert any("FSDP" in type(module).__name__ for module in cut.modules())
    assert [type(module) for module in copy.modules()] == [type(module) for module in plain.modules()]
    assert [set(vars(module)) for module in copy.modules()] == [set(vars(module)) for module in plain.modules()]
    assert copy.aside[0] is copy.core
    assert list(copy.core._forward_hooks.values()) == [_unchanged]
    assert not any(module._forward_pre_hooks for module in copy.modules())
    assert {name: (type(p), p.requires_grad) for name, p in copy.named_parameters()} == {
        name: (type(p), p.requires_grad) for name, p in plain.named_parameters()
    }
    state = plain.state_dict()
    assert all(torch.equal(w, state[name]) for name, w in copy.state_dict().items())
    assert not {p.data_ptr() for p in copy.parameters()} & {p.to_local().data_ptr() for p in cut.parameters()}
    assert gathered(plain) is plain


def test_a_config_whose_script_gives_a_wrapped_model_runs_the_plain_one(tmp_path: Path) -> None:
    model = make(nn.Linear(6, 6))
    run = Run(cast(Any, SimpleNamespace(script=tmp_path / "task.py")))
    run.__dict__["script"] = SimpleNamespace(model=lambda: DataParallel(model))
    assert run.model is model
