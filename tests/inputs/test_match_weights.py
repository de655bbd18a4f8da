"""From a checkpoint's tensors to a model's parameters: names, wrappers, tied weights, complex numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from attribution_cases import (
    CONFIG,
    World,
    assert_close,
    assert_same_result,
    make_model,
    save_torch,
    world,
)
from safetensors.torch import save_file
from torch import nn

import sdi
import sdi.reference
from sdi.fast import with_weights
from sdi.inputs.checkpoints import find_checkpoints
from sdi.inputs.match_weights import match_names

__all__ = ["world"]


def test_missing_unexpected_and_misshapen_keys_are_listed(world: World) -> None:
    state = world.points[0].state_dict()
    state["core.0.attn.qq.weight"] = state.pop("core.0.attn.q.weight")
    save_file(state, world.paths[0])
    words = "missing 'core.0.attn.q.weight'; unexpected 'core.0.attn.qq.weight'$"
    with pytest.raises(ValueError, match=words):
        world.attribute(store=world.store)
    state["core.0.attn.q.weight"] = torch.ones(2, 3)
    del state["core.0.attn.qq.weight"]
    save_file(state, world.paths[0])
    with pytest.raises(ValueError, match=r"'core.0.attn.q.weight' has shape \(2, 3\), the model's \(8, 8\)$"):
        world.attribute(store=world.store)
    assert not world.store.exists()
    many = {f"w{k}": () for k in range(12)}
    with pytest.raises(ValueError, match=r"missing 'w0', .*'w9' and 2 more$"):
        match_names({}, many)


@pytest.mark.parametrize("where", ["checkpoint", "model", "both"])
@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_what_a_wrapper_puts_before_every_name_does_not_matter(prefix: str, where: str) -> None:
    weights = {(prefix if where != "model" else "") + n: np.ones(2) for n in ("a", "b.module.c")}
    shapes = {(prefix if where != "checkpoint" else "") + n: (2,) for n in ("a", "b.module.c")}
    assert match_names(weights, shapes).keys() == shapes.keys()


@pytest.mark.slow
def test_a_wrapped_checkpoint_gives_the_same_scores(world: World) -> None:
    wanted = world.attribute()
    for path, point in zip(world.paths, world.points, strict=True):
        save_file({f"module.{n}": w for n, w in point.state_dict().items()}, path)
    assert_close(world.attribute().sdi.values, wanted.sdi.values)


def test_of_tied_weights_the_checkpoint_may_hold_one_only() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    state = {n: w.clone() + 1 for n, w in model.state_dict().items() if n != "1.weight"}
    with_weights(model, state)
    assert torch.equal(model[1].weight, state["0.weight"])
    with pytest.raises(ValueError, match=r"missing '1.bias'$"):
        with_weights(model, {n: w for n, w in state.items() if n != "1.bias"})


@pytest.mark.slow
def test_only_the_checkpoint_counts_not_the_weights_the_model_came_with(world: World) -> None:
    wanted = world.attribute()
    world.model = make_model(77)
    assert_same_result(world.attribute(), wanted)
    assert CONFIG.tau == wanted.sdi.shape[2]


@pytest.mark.parametrize("backend", ["fast", "reference"])
def test_complex_weights_do_not_lose_their_imaginary_part(tmp_path: Path, backend: str) -> None:
    model = make_model() if backend == "fast" else sdi.reference.LoopedTransformer.init(CONFIG, seed=0)
    state = make_model().state_dict()
    name = next(iter(state))
    words = f"{name!r} holds complex numbers, the model's real ones"
    for wrong in (state[name] + 1j, state[name].to(torch.complex64)):
        (point,) = find_checkpoints(save_torch(tmp_path / "a.pt", state | {name: wrong}), [0.1])
        with pytest.raises(ValueError, match=words):
            point.load_into(model, sdi.backend(backend))


def test_complex_weights_are_loaded_into_complex_parameters() -> None:
    model = nn.Linear(2, 3, dtype=torch.complex64)
    weights = {"weight": torch.randn(3, 2, dtype=torch.complex64), "bias": torch.randn(3)}
    with_weights(model, weights)
    assert torch.equal(model.weight, weights["weight"])
    assert torch.equal(model.bias, weights["bias"].to(torch.complex64))


@pytest.mark.parametrize(
    ("own", "given", "fits"),
    [
        (torch.bool, torch.tensor([0, 1], dtype=torch.uint8), True),
        (torch.bool, torch.tensor([0, 2], dtype=torch.uint8), False),
        (torch.int64, torch.tensor([0.0, 3.0]), True),
        (torch.int64, torch.tensor([0.0, 0.5]), False),
        (torch.uint8, torch.tensor([0, 256]), False),
        (torch.float32, torch.tensor([0.1, 0.2], dtype=torch.float64), True),
    ],
)
def test_numbers_that_a_buffer_cannot_hold_are_refused(own: torch.dtype, given: torch.Tensor, fits: bool) -> None:
    model = nn.Module()
    model.register_buffer("mask", torch.zeros(2, dtype=own))
    if fits:
        assert torch.equal(with_weights(model, {"mask": given}).mask, given.to(own))
        return
    with pytest.raises(ValueError, match=r"the checkpoint does not fit the model: 'mask' holds torch.* whose numbers"):
        with_weights(model, {"mask": given})
    assert not model.mask.any()
