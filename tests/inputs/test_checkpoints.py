"""Checkpoints: found by paths and patterns, in order, none twice; loaded once; the same from both formats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from attribution_cases import (
    World,
    assert_close,
    counting,
    make_model,
    save_checkpoint,
    world,
)

from sdi.inputs.checkpoints import Checkpoint, find_checkpoints

__all__ = ["world"]


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


@pytest.mark.slow
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
