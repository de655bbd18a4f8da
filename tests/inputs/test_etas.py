"""The weight of a checkpoint: given, beside it, in its metadata or by its optimiser; whole or by parameter."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import (
    QUERY,
    World,
    assert_close,
    counting,
    dense,
    make_model,
    save_checkpoint,
    save_torch,
    world,
)
from safetensors.torch import save_file
from torch import nn

from sdi.errors import NonFiniteError
from sdi.fast import token_cross_entropy
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints, shows_adam
from sdi.inputs.settings import Settings
from sdi.loop import Loop
from sdi.run.attribute import run_info

__all__ = ["world"]

SGD = torch.optim.SGD


def etas(pattern: Any, eta: Any = None) -> list[Any]:
    return [c.eta for c in find_checkpoints(pattern, eta)]


def test_eta_comes_from_the_list_before_the_sidecar_before_the_metadata(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_file(make_model().state_dict(), path, metadata={"eta": "0.125"})
    assert etas(path) == [0.125]
    (tmp_path / "a.json").write_text('{"eta": 0.25}')
    assert etas(path) == [0.25]
    assert etas(path, [0.5]) == [0.5]
    (tmp_path / "a.json").write_text('{"note": "no eta here"}')
    assert etas(path) == [0.125]


def test_a_torch_file_may_hold_its_eta_beside_the_weights_or_among_them(tmp_path: Path) -> None:
    state = make_model().state_dict()
    for eta in (0.5, {"core": 0.5, "head": 0.25}):
        for content in ({"model": state, "eta": eta}, {**state, "eta": eta}):
            (point,) = find_checkpoints(save_torch(tmp_path / "a.pt", content))
            assert point.eta == eta
            assert point.weights().keys() == state.keys()


def test_among_weights_a_tensor_named_eta_is_a_weight(tmp_path: Path) -> None:
    path = save_torch(tmp_path / "a.pt", {"w": torch.ones(2), "eta": torch.tensor(0.5)})
    with pytest.raises(ValueError, match=r"^no eta for checkpoint"):
        find_checkpoints(path)
    assert find_checkpoints(path, [0.1])[0].weights().keys() == {"w", "eta"}


def test_the_metadata_may_name_modules(tmp_path: Path) -> None:
    path, state = tmp_path / "a.safetensors", make_model().state_dict()
    save_file(state, path, metadata={"eta": '{"core": 0.5, "head": 2}'})
    assert etas(path) == [{"core": 0.5, "head": 2.0}]
    for bad in ("{", "[1]", '{"core": "much"}', "much", "null"):
        save_file(state, path, metadata={"eta": bad})
        with pytest.raises(ValueError, match=r"^eta of .*a.safetensors must be a number, finite and not negative, got"):
            find_checkpoints(path)


def test_a_sidecar_may_name_modules_and_the_longest_name_counts(tmp_path: Path) -> None:
    (point,) = find_checkpoints(
        save_checkpoint(tmp_path / "a.safetensors", make_model(), {"core": 0.5, "core.0.attn": 0.25})
    )
    assert point.eta_of("core.0.mlp.up.weight") == 0.5
    assert point.eta_of("core.0.attn.q.weight") == 0.25
    with pytest.raises(ValueError, match=r"^eta of a.safetensors has none for parameter 'corex.weight', only for"):
        point.eta_of("corex.weight")


@pytest.mark.parametrize("key", ["optimizer", "optimizer_state_dict"])
@pytest.mark.parametrize("old", [False, True])
def test_eta_comes_from_the_optimiser(tmp_path: Path, key: str, old: bool) -> None:
    model = make_model()
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.03)
    model(QUERY[0]).sum().backward()
    optimiser.step()
    path = tmp_path / "a.pt"
    content = {"model": model.state_dict(), key: optimiser.state_dict(), "epoch": 3}
    torch.save(content, path, _use_new_zipfile_serialization=not old)
    (point,) = find_checkpoints(path)
    assert point.eta == 0.03
    assert point.weights().keys() == model.state_dict().keys()


def groups(model: nn.Module, rates: tuple[float, float], named: bool) -> list[dict[str, Any]]:
    parts: tuple[list[Any], list[Any]] = ([], [])
    for name, p in model.named_parameters():
        parts["mlp" in name].append((name, p) if named else p)
    return [{"params": part, "lr": rate} for part, rate in zip(parts, rates, strict=True)]


@pytest.mark.parametrize("prefix", ["", "module."])
def test_several_groups_with_names_give_each_parameter_its_own_eta(tmp_path: Path, prefix: str) -> None:
    model = make_model()
    optimiser = SGD(groups(model, (0.5, 0.25), named=True)).state_dict()
    for group in optimiser["param_groups"]:
        group["param_names"] = [prefix + name for name in group["param_names"]]
    (point,) = find_checkpoints(save_torch(tmp_path / "a.pt", {"model": model.state_dict(), "optimizer": optimiser}))
    assert point.eta_of("core.0.attn.q.weight") == 0.5
    assert point.eta_of("core.0.mlp.up.bias") == 0.25


def test_several_groups_of_one_rate_need_no_names(tmp_path: Path) -> None:
    model = make_model()
    content = {"model": model.state_dict(), "optimizer": SGD(groups(model, (0.5, 0.5), named=False)).state_dict()}
    assert etas(save_torch(tmp_path / "a.pt", content)) == [0.5]


def test_several_rates_without_names_are_refused(tmp_path: Path) -> None:
    model = make_model()
    content = {"model": model.state_dict(), "optimizer": SGD(groups(model, (0.5, 0.1), named=False)).state_dict()}
    with pytest.raises(ValueError, match=r"different learning rates \[0.5, 0.1\] but without parameter names; make it"):
        find_checkpoints(save_torch(tmp_path / "a.pt", content))


def test_a_missing_eta_is_an_error_that_says_how_to_give_it(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "a.safetensors", make_model())
    words = (
        r"^no eta for checkpoint .*a.safetensors: give eta=\[...\] .*, or write {\"eta\": ...} to a.json beside it, or"
    )
    with pytest.raises(ValueError, match=words):
        find_checkpoints(path)


@pytest.mark.parametrize("eta", [-0.1, float("nan"), float("inf"), "fast", None, True, {}, {"core": -1}])
def test_an_eta_that_is_no_weight_is_refused(tmp_path: Path, eta: Any) -> None:
    path = save_checkpoint(tmp_path / "a.safetensors", make_model())
    (tmp_path / "a.json").write_text(json.dumps({"eta": eta}))
    with pytest.raises(ValueError, match=r"^eta of .*a.safetensors must be a number, finite and not negative, got "):
        find_checkpoints(path)
    if not isinstance(eta, dict):
        with pytest.raises(ValueError, match="must be a number, finite and not negative"):
            find_checkpoints(path, [eta])


@pytest.mark.parametrize("eta", [[], [0.1, 0.2], 0.1, "1", {0: 0.1}])
def test_a_list_of_etas_must_fit_the_checkpoints(tmp_path: Path, eta: Any) -> None:
    path = save_checkpoint(tmp_path / "a.safetensors", make_model())
    with pytest.raises(ValueError, match=r"^eta must be a list with one weight for each of the 1 checkpoints, got "):
        find_checkpoints(path, eta)


def test_a_broken_sidecar_is_named(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "a.safetensors", make_model())
    (tmp_path / "a.json").write_text('{"eta": 0.')
    with pytest.raises(ValueError, match=r"^sidecar .*a.json is not JSON"):
        find_checkpoints(path)


@pytest.mark.slow
def test_an_eta_of_zero_is_reported_and_adds_nothing(world: World) -> None:
    result = world.attribute(eta=[0.5, 0.0])
    assert result.notes == ["checkpoint step-10.safetensors has eta 0 and adds nothing"]
    assert not result.by_checkpoint.values[1].any()
    assert world.attribute().notes == []
    save_checkpoint(world.paths[1], world.points[1], {"core": 0.5, "core.0.attn": 0})
    assert world.attribute().notes == ["checkpoint step-10.safetensors has eta 0 for core.0.attn, which add nothing"]


@pytest.mark.slow
def test_etas_per_parameter_weigh_each_parameters_part(world: World) -> None:
    rates = {"core": 0.5, "core.0.mlp": 2.0}
    for path, point in zip(world.paths, world.points, strict=True):
        save_checkpoint(path, point, rates)
    result = world.attribute(m=None)
    wanted = 0.0
    for g, phi in zip(*dense(world), strict=True):
        for b in phi.blocks:
            rate = 2.0 if ".mlp." in b.name else 0.5
            wanted = wanted + rate * np.einsum("nd,qtd->nqt", g.g[:, b.start : b.stop], phi.phi[..., b.start : b.stop])
    assert_close(result.sdi.values, wanted)
    assert_close(result.info["eta"][result.labels["checkpoint"][0]]["core.0.mlp"], 2.0)


def test_an_eta_that_is_missing_for_a_body_parameter_is_refused_before_anything_is_made(world: World) -> None:
    save_checkpoint(world.paths[1], world.points[1], {"core.0.mlp": 0.5})
    with (
        counting(Checkpoint, "weights") as calls,
        pytest.raises(ValueError, match=r"has none for parameter 'core.0.norm1"),
    ):
        world.attribute(store=world.store)
    assert not calls
    assert not world.store.exists()


@pytest.mark.parametrize("eta", [1e300, 1e38])
def test_an_eta_that_is_too_large_is_named(world: World, eta: float) -> None:
    changes = {"eta": [0.5, eta], "loss": lambda model, batch: 1e4 * token_cross_entropy(model, batch)}
    with pytest.raises(NonFiniteError, match=rf"^eta {re.escape(f'{eta:g}')} is too large: .* into float32; give"):
        world.attribute(**changes, dtype="float32")
    if eta == 1e38:
        world.attribute(**changes)  # in float64, there is room


@pytest.mark.parametrize(("kind", "noted"), [(torch.optim.AdamW, True), (torch.optim.SGD, False)])
def test_a_run_notes_that_adam_trained_it(tmp_path: Path, kind: Any, noted: bool) -> None:
    model = make_model()
    optimiser = kind(model.parameters(), lr=0.1)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    optimiser.step()
    path = save_torch(tmp_path / "a.pt", {"model": model.state_dict(), "optimizer": optimiser.state_dict()})
    folder = tmp_path / "checkpoint-1"  # of a Trainer
    folder.mkdir()
    save_file(model.state_dict(), folder / "model.safetensors")
    save_torch(folder / "optimizer.pt", optimiser.state_dict())
    for place in (path, folder):
        assert shows_adam(place) is noted
        notes = run_info(find_checkpoints(place), Settings(), Loop(["core"], "core"))["notes"]
        assert any("trained by Adam" in note for note in notes) is noted
    (folder / "optimizer.pt").write_bytes(b"no pickle")
    assert not shows_adam(folder)
    assert not shows_adam(tmp_path / "gone")


@pytest.mark.parametrize("groups", [[{"lr": [0.1, 0.2]}], [{"lr": torch.ones(2)}], [{"lr": "fast"}], [7], 7])
def test_an_odd_learning_rate_is_refused_and_eta_can_be_given(tmp_path: Path, groups: Any) -> None:
    content = {"model": {"w": torch.ones(2)}, "optimizer": {"state": {}, "param_groups": groups}}
    path = save_torch(tmp_path / "a.pt", content)
    with pytest.raises(ValueError, match=r"the optimiser's state in .*; give eta=\[\.\.\.\]"):
        find_checkpoints(path)
    assert find_checkpoints(path, [0.1])[0].eta == 0.1
