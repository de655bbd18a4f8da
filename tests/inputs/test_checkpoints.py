"""Checkpoints: read as tensors only, in order, each with its eta, none twice."""

from __future__ import annotations

import json
import os
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attribution_cases import (
    CONFIG,
    QUERY,
    World,
    assert_close,
    assert_same_result,
    counting,
    dense,
    make_model,
    save_checkpoint,
    world,
)
from safetensors.torch import save_file
from torch import nn

import sdi
import sdi.reference
from sdi.errors import NonFiniteError
from sdi.fast import token_cross_entropy, with_weights
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints
from sdi.inputs.match_weights import match_names

__all__ = ["world"]
SGD = torch.optim.SGD


def etas(pattern: Any, eta: Any = None) -> list[Any]:
    return [c.eta for c in find_checkpoints(pattern, eta)]


def save_torch(path: Path, content: Any) -> Path:
    torch.save(content, path)
    return path


def test_numbers_in_names_count_as_numbers(tmp_path: Path) -> None:
    for k in (10, 9, 100, 1):
        save_checkpoint(tmp_path / f"step-{k}.safetensors", make_model(k), eta=0.1)
    assert [c.path.stem for c in find_checkpoints(tmp_path / "*")] == ["step-1", "step-9", "step-10", "step-100"]


def test_several_patterns_keep_their_order_and_name_no_file_twice(tmp_path: Path) -> None:
    for k, name in enumerate(("a-2", "a-1", "b-1")):
        save_checkpoint(tmp_path / f"{name}.safetensors", make_model(k), eta=0.1)
    found = find_checkpoints([tmp_path / "b*.safetensors", str(tmp_path / "*.safetensors")])
    assert [c.path.stem for c in found] == ["b-1", "a-1", "a-2"]


def test_a_file_whose_name_looks_like_a_pattern_is_found(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path / "run[1].safetensors", make_model(), eta=0.1)
    assert [c.path for c in find_checkpoints(path)] == [path]


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


def test_an_eta_of_zero_is_reported_and_adds_nothing(world: World) -> None:
    result = world.attribute(eta=[0.5, 0.0])
    assert result.notes == ["checkpoint step-10.safetensors has eta 0 and adds nothing"]
    assert not result.by_checkpoint.values[1].any()
    assert world.attribute().notes == []
    save_checkpoint(world.paths[1], world.points[1], {"core": 0.5, "core.0.attn": 0})
    assert world.attribute().notes == ["checkpoint step-10.safetensors has eta 0 for core.0.attn, which add nothing"]


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
    assert_close(result.info["eta"][result.by_checkpoint.coords["checkpoint"][0]]["core.0.mlp"], 2.0)


def test_an_eta_that_is_missing_for_a_body_parameter_is_refused_before_anything_is_made(world: World) -> None:
    save_checkpoint(world.paths[1], world.points[1], {"core.0.mlp": 0.5})
    with (
        counting(Checkpoint, "weights") as calls,
        pytest.raises(ValueError, match=r"has none for parameter 'core.0.norm1"),
    ):
        world.attribute(store=world.store)
    assert not calls
    assert not world.store.exists()


class Evil:
    """What a pickle could do: when loaded, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("form", ["zip", "old", "pickle 0", "pickle 2", "pickle 5"])
def test_a_checkpoint_with_code_in_it_is_refused_before_anything_of_it_runs(world: World, form: str) -> None:
    ran, path = world.folder / "ran", world.folder / "evil.pt"
    content = {"model": make_model().state_dict(), "optimizer": Evil(ran)}
    if form.startswith("pickle"):
        path.write_bytes(pickle.dumps({"model": Evil(ran)}, protocol=int(form[-1])))
    else:
        torch.save(content, path, _use_new_zipfile_serialization=form == "zip")
    for eta in (None, [0.1]):
        with pytest.raises(
            ValueError,
            match=r"^checkpoint [^:]*evil.pt is refused, because it holds more than tensors and could run code",
        ):
            world.attribute(checkpoints=path, eta=eta, store=world.store)
    assert not ran.exists()
    assert not world.store.exists()
    if not form.startswith("pickle"):
        torch.load(path, weights_only=False)
        assert ran.exists()  # the file does what it says, so that the test can fail


def test_a_whole_pickled_module_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"is refused.* could run code when loaded; save the state dict alone"):
        find_checkpoints(save_torch(tmp_path / "a.pt", nn.Linear(2, 2)))


@pytest.mark.parametrize("form", ["safetensors", "zip", "old"])
def test_a_truncated_checkpoint_is_named(tmp_path: Path, form: str) -> None:
    path = tmp_path / ("a.safetensors" if form == "safetensors" else "a.pt")
    state = make_model().state_dict()
    if form == "safetensors":
        save_file(state, path, metadata={"eta": "1"})
    else:
        torch.save({"model": state, "eta": 1.0}, path, _use_new_zipfile_serialization=form == "zip")
    whole = path.read_bytes()
    assert etas(path) == [1.0]
    for k in (0, 1, 10, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:k])
        with pytest.raises(ValueError, match=r"^checkpoint .*/a\..* (cannot be read|is not a safetensors file)"):
            find_checkpoints(path)


@pytest.mark.parametrize("content", [b"hello", b"\x00\x01", b"{}", b"\x93NUMPY\x01\x00v"])
def test_a_file_that_torch_did_not_write_is_said_to_be_one(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pt").write_bytes(content)
    words = rf"^checkpoint .*a.pt cannot be read: it begins with {re.escape(repr(content[:8]))}, so torch.save did not"
    with pytest.raises(ValueError, match=words):
        find_checkpoints(tmp_path / "a.pt", [0.1])[0].weights()


@pytest.mark.parametrize("eta", [1e300, 1e38])
def test_an_eta_that_is_too_large_is_named(world: World, eta: float) -> None:
    changes = {"eta": [0.5, eta], "loss": lambda model, batch: 1e4 * token_cross_entropy(model, batch)}
    with pytest.raises(NonFiniteError, match=rf"^eta {re.escape(f'{eta:g}')} is too large: .* into float32; give"):
        world.attribute(**changes, dtype="float32")
    if eta == 1e38:
        world.attribute(**changes)  # in float64, there is room


@pytest.mark.parametrize("content", [[1, 2], torch.ones(3), "text"])
def test_a_file_without_a_state_dict_is_refused(tmp_path: Path, content: Any) -> None:
    with pytest.raises(ValueError, match=r"must hold a state dict, got "):
        find_checkpoints(save_torch(tmp_path / "a.pt", content))


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^checkpoints: '.*/no.pt' names no file$"):
        find_checkpoints([tmp_path / "no.pt"])
    (tmp_path / "a.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    (tmp_path / "model.safetensors.index.json").write_text("{}")
    for pattern, words in (
        ("a.json", "$"),
        ("folder", r", but a folder; name the files in it, such as '.*/folder/\*.safetensors'$"),
        ("*", ", but a folder"),
        ("*.index.json", " that can be read: model.safetensors.index.json is the index of a checkpoint in several"),
        ("model.safetensors.index.json", " that can be read: .*; save the state dict in one file$"),
    ):
        with pytest.raises(ValueError, match=f"names no file{words}"):
            find_checkpoints(tmp_path / pattern)
    with pytest.raises(ValueError, match=r"^checkpoints must name at least one file, got none$"):
        find_checkpoints([])


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


def test_torch_files_and_safetensors_give_the_same_scores(world: World) -> None:
    wanted = world.attribute()
    for path, point in zip(world.paths, world.points, strict=True):
        torch.save(point.state_dict(), path.with_suffix(".pt"))
    result = world.attribute(checkpoints=world.folder / "ckpt/*.pt")
    assert_close(result.by_checkpoint.values, wanted.by_checkpoint.values, rtol=0)


@pytest.mark.slow
def test_no_checkpoint_is_loaded_twice_and_none_without_need(world: World) -> None:
    with counting(Checkpoint, "weights", lambda c: c.path.stem) as calls:
        world.attribute(store=world.store)
    assert calls == ["step-9", "step-10"]
    with counting(Checkpoint, "weights", lambda c: c.path.stem) as calls:
        world.attribute(store=world.store)
    assert calls == []
    with counting(Checkpoint, "weights", lambda c: c.path.stem) as calls:
        world.attribute(backend="exact")
    assert calls == ["step-9", "step-10"]
    with counting(Checkpoint, "weights", lambda c: c.path.stem) as calls:
        world.attribute(repeats=3)
    assert calls == ["step-9", "step-10"]


def test_two_checkpoints_of_one_content_are_refused(world: World) -> None:
    twin = save_checkpoint(world.folder / "other/last.safetensors", world.points[0], 0.5)
    words = "^checkpoints .*/ckpt/step-9.safetensors and .*/other/last.safetensors have the same content; name one of"
    with pytest.raises(ValueError, match=words):
        world.attribute(checkpoints=[*world.paths, twin])


@pytest.mark.parametrize("name", ["last", "zlast"])
def test_a_link_and_another_spelling_name_no_file_twice(world: World, monkeypatch: Any, name: str) -> None:
    folder = world.folder / "ckpt"
    (folder / f"{name}.safetensors").symlink_to("step-10.safetensors")
    found = find_checkpoints(folder / "*.safetensors", [0.5, 0.25])
    assert [c.path.name for c in found] == ["step-9.safetensors", "step-10.safetensors"]
    monkeypatch.chdir(folder)
    again = find_checkpoints(["step-9.safetensors", folder / "step-9.safetensors", "../ckpt/step-9.safetensors"])
    assert [str(c.path) for c in again] == ["step-9.safetensors"]
    (alone,) = find_checkpoints(folder / f"{name}.safetensors", [0.5])  # as in a cache, whose files are links
    assert alone.path.name == f"{name}.safetensors"


def test_a_pattern_may_name_files_in_folders_of_any_depth(tmp_path: Path) -> None:
    for k, place in enumerate(("a-1", "d/a-2", "d/e/a-3")):
        save_checkpoint(tmp_path / f"{place}.safetensors", make_model(k), eta=0.1)
    assert [c.path.stem for c in find_checkpoints(tmp_path / "**/*.safetensors")] == ["a-1", "a-2", "a-3"]


def test_a_home_is_found(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    path = save_checkpoint(tmp_path / "a.safetensors", make_model(), eta=0.1)
    assert [c.path for c in find_checkpoints("~/*.safetensors")] == [path]


@pytest.mark.parametrize("form", ["safetensors", "pt"])
@pytest.mark.parametrize("backend", ["fast", "exact"])
def test_a_checkpoint_that_changes_while_the_run_is_going_is_refused(world: World, form: str, backend: str) -> None:
    paths = [path.with_suffix(f".{form}") for path in world.paths]
    if form == "pt":
        for path, point in zip(paths, world.points, strict=True):
            save_torch(path, point.state_dict())

    def overwrite(progress: Any) -> None:
        if progress.checkpoint == 1:
            state = make_model(5).state_dict()
            save_torch(paths[1], state) if form == "pt" else save_file(state, paths[1])

    options = {"checkpoints": paths, "backend": backend, "store": None if backend == "exact" else world.store}
    with pytest.raises(
        ValueError, match=r"^checkpoint .*/step-10\..* changed while the run was going; start it again$"
    ):
        world.attribute(**options, progress=overwrite)
    if backend == "fast":
        assert [p.name.rpartition("-")[0] for p in world.store.iterdir() if p.is_dir()] == ["step-9"]


@pytest.mark.slow
def test_a_checkpoint_that_does_not_fit_is_named(world: World) -> None:
    state = world.points[1].state_dict()
    del state["core.0.attn.q.weight"]
    save_file(state, world.paths[1])
    for backend in ("fast", "exact"):
        with pytest.raises(
            ValueError, match=r"^.*/step-10.safetensors: the checkpoint does not fit the model: missing"
        ):
            world.attribute(backend=backend)


def test_a_torch_file_without_tensors_is_refused_with_its_keys(tmp_path: Path) -> None:
    for content in ({"net": {"w": torch.ones(2)}, "epoch": 3}, {"model": {"note": "none"}, "epoch": 3}, {}):
        words = (
            rf"must hold tensors, at the top or under one of \('model', .*, got only {re.escape(str(list(content)))}$"
        )
        with pytest.raises(ValueError, match=words):
            find_checkpoints(save_torch(tmp_path / "a.pt", content), [0.1])[0].weights()


@pytest.mark.parametrize("backend", ["fast", "exact"])
def test_the_model_leaves_with_its_own_weights_also_after_an_error(world: World, backend: str) -> None:
    before = {n: w.clone() for n, w in world.model.state_dict().items()}

    def broken(model: Any, batch: Any) -> Any:
        assert not torch.equal(model.state_dict()["head.weight"], before["head.weight"])
        raise RuntimeError("the loss broke")

    world.attribute(backend=backend)
    with pytest.raises(RuntimeError, match="the loss broke"):
        world.attribute(backend=backend, loss=broken)
    for name, w in world.model.state_dict().items():
        assert torch.equal(w, before[name])


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
