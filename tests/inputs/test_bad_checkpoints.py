"""Files that are no checkpoint are refused, by name, before anything of them runs or is scored."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from attribution_cases import (
    World,
    make_model,
    save_torch,
    world,
)
from safetensors.torch import save_file
from torch import nn

from sdi.inputs.checkpoints import find_checkpoints

__all__ = ["world"]


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
    assert [point.eta for point in find_checkpoints(path)] == [1.0]
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
        ("model.safetensors.index.json", " that can be read: .*; name the folder that holds it$"),
    ):
        with pytest.raises(ValueError, match=f"names no file{words}"):
            find_checkpoints(tmp_path / pattern)
    with pytest.raises(ValueError, match=r"^checkpoints must name at least one file, got none$"):
        find_checkpoints([])


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
