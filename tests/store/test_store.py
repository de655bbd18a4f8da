"""The store: what it holds, when it is reused, when it is refused, and that what is damaged is named."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attribution_cases import (
    TRAIN,
    World,
    assert_same_result,
    featurized,
    files,
    filled,
    flat,
    make_batches,
    make_model,
    save_checkpoint,
    shards,
    world,
)
from safetensors.numpy import load_file

import sdi
import sdi.fast
from sdi import Loop, Store, StoreError
from sdi.fast import token_cross_entropy
from sdi.files import write_whole

__all__ = ["filled", "world"]


def test_the_layout_is_what_the_text_says(filled: World) -> None:
    result = filled.attribute(store=filled.store)
    first, second = result.labels["checkpoint"]
    assert first.startswith("step-9-")
    wanted = ["manifest.json", "run.json"]
    for point in (first, second):
        for side, count in (("train", 3), ("query", 1)):
            wanted += [f"{point}/{side}/shard-0000{k}.{end}" for k in range(count) for end in ("json", "safetensors")]
    assert sorted(files(filled.store)) == sorted(wanted)
    manifest = json.loads((filled.store / "manifest.json").read_text())
    assert manifest["version"] == 2
    assert manifest["sdi"] == sdi.__version__
    assert manifest["sketch"]["recipe"].items() >= {"m": 32, "seed": 0, "family": "table"}.items()
    assert manifest["sketch"]["shapes"]["core.0.attn.q.weight"] == [8, 8]
    assert manifest["config"]["loop"] == {"body": ["core"], "step": "inject", "end": "coda"}
    assert manifest["config"]["model"]["config"]["tau"] == 3
    train, query = (load_file(filled.store / first / side / "shard-00000.safetensors") for side in ("train", "query"))
    width = Store(filled.store).sketch.size
    assert train["values"].shape == (3, width)
    assert query["values"].shape == (3, 3, width)
    sidecar = json.loads((filled.store / first / "train/shard-00001.json").read_text())
    assert sidecar["ids"] == ["t-3", "t-4", "t-5"]
    assert sidecar["tau"] == [3, 3, 3]


@pytest.mark.slow
def test_a_full_store_is_read_and_nothing_else(filled: World) -> None:
    before = files(filled.store)
    with featurized() as calls:
        result = filled.attribute(store=filled.store)
    assert not calls
    assert files(filled.store) == before
    assert_same_result(result, filled.attribute(shard=3))


@pytest.mark.slow
def test_new_queries_make_nothing_on_the_training_side(filled: World) -> None:
    more = make_batches(4, "new", seed=8)
    with featurized() as calls:
        result = filled.attribute(store=filled.store, query=more)
    assert flat(calls) == 2 * [f"new-{k}" for k in range(4)]
    assert_same_result(result, filled.attribute(query=more, shard=3))


@pytest.mark.slow
def test_more_training_examples_append(filled: World) -> None:
    more = [*TRAIN, *make_batches(3, "more", seed=8)]
    before = files(filled.store)
    with featurized() as calls:
        result = filled.attribute(store=filled.store, train=more)
    assert flat(calls) == 2 * [f"more-{k}" for k in range(3)]
    assert before.pop("run.json") != files(filled.store)["run.json"]
    assert before.items() < files(filled.store).items()
    assert_same_result(result, filled.attribute(train=more), rtol=1e-12)  # in other shards


@pytest.mark.slow
def test_a_new_checkpoint_is_the_only_one_to_be_made(filled: World) -> None:
    path = filled.folder / "ckpt/step-11.safetensors"
    save_checkpoint(path, make_model(3), 0.125)
    with featurized() as calls:
        result = filled.attribute(store=filled.store)
    assert len(flat(calls)) == 10
    assert_same_result(result, filled.attribute(shard=3), rtol=1e-12)  # of which the new one has larger shards


@pytest.mark.slow
@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing", "relabelled"])
@pytest.mark.parametrize("which", [0, 2])
def test_a_damaged_shard_is_named_and_can_be_made_again(filled: World, harm: str, which: int) -> None:
    wanted, before = filled.attribute(store=filled.store), files(filled.store)
    shard = shards(filled.store)[which]
    content = bytearray(shard.read_bytes())
    if harm == "missing":
        shard.unlink()
    elif harm == "relabelled":
        sidecar = shard.with_suffix(".json")
        sidecar.write_text(sidecar.read_text().replace(" 3\n ]\n}", " 2\n ]\n}"))
        assert sidecar.read_bytes() != before[str(sidecar.relative_to(filled.store))]
    else:
        content[len(content) * 2 // 3] ^= 1
        shard.write_bytes(content if harm == "flipped" else content[:-1])
    said = f"^shard {shard} is missing, truncated or altered; delete it with its .json"
    if harm == "relabelled":
        said = f"^{shard.with_suffix('.json')} was truncated or altered; delete it with its shard"
    with pytest.raises(StoreError, match=said):
        filled.attribute(store=filled.store)
    shard.unlink(missing_ok=True)
    shard.with_suffix(".json").unlink()
    with featurized() as calls:
        result = filled.attribute(store=filled.store, shard=3)
    assert 0 < len(flat(calls)) <= 3
    assert files(filled.store) == before
    assert_same_result(result, wanted)


def test_a_broken_json_is_named(filled: World) -> None:
    sidecar = shards(filled.store)[1].with_suffix(".json")
    whole = sidecar.read_text()
    for key in ("tau", "ids"):
        sidecar.write_text(json.dumps(json.loads(whole) | {key: None}))
        with pytest.raises(StoreError, match=f"{sidecar} was truncated or altered; delete it"):
            filled.attribute(store=filled.store)
    for text in (whole[:-20], "[]", whole.replace('"tau"', '"tao"'), whole.replace('  "t-0",\n', "")):
        if text == whole:
            continue
        sidecar.write_text(text)
        with pytest.raises(StoreError, match=f"{sidecar} was truncated or altered; delete it"):
            filled.attribute(store=filled.store)
    manifest = json.loads((filled.store / "manifest.json").read_text())
    for config in ({}, [], {"dtype": "int8"}):
        (filled.store / "manifest.json").write_text(json.dumps(manifest | {"config": config}))
        with pytest.raises(StoreError, match=r"manifest.json was truncated or altered; use a new folder$"):
            Store(filled.store)
    (filled.store / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match=r"manifest.json was truncated or altered"):
        Store(filled.store)


@pytest.mark.parametrize(("version", "newer"), [(3, True), (0, False), (None, False), ("1", False)])
def test_a_store_of_another_version_is_refused(filled: World, version: Any, newer: bool) -> None:
    manifest = filled.store / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": version}))
    before = files(filled.store)
    more = "; it was written by a newer one" if newer else ""
    words = f"has version {version!r}, this sdi reads versions 1 and 2{more}$"
    for use in (lambda: Store(filled.store), lambda: filled.attribute(store=filled.store)):
        with pytest.raises(StoreError, match=words):
            use()
    assert files(filled.store) == before


def test_a_folder_that_is_no_store_is_refused_and_untouched(world: World) -> None:
    world.store.mkdir()
    (world.store / "thesis.tex").write_text("ten years")
    with pytest.raises(StoreError, match=r"is not a store and not empty \(it holds 'thesis.tex'\); give a new folder$"):
        world.attribute(store=world.store)
    assert [p.name for p in world.store.iterdir()] == ["thesis.tex"]
    with pytest.raises(StoreError, match=r"thesis.tex is a file, not a store; give a folder"):
        world.attribute(store=world.store / "thesis.tex")
    with pytest.raises(StoreError, match=r"is not a store: it has no manifest.json"):
        Store(world.store)


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize(
    "refused",
    [
        {"train": []},
        {"m": 0},
        {"seed": 0.5},
        {"seed": -1},
        {"query": []},
        {"query": [*TRAIN[:1], *TRAIN[:1]]},
        {"mode": "both"},
        {"dtype": "int4"},
        {"audit": "never"},
        {"family": "other"},
        {"loop": Loop("nothing", "inject")},
        {"eta": [1.0]},
        {"checkpoints": "nowhere/*"},
        {"train": [*TRAIN[:1], *TRAIN[:1]]},
        {"loss": lambda model, batch: token_cross_entropy(model, batch).mean()},
    ],
    ids=lambda refused: next(iter(refused)),
)
def test_a_refused_call_leaves_nothing_behind(world: World, refused: dict[str, Any], there: bool) -> None:
    place = world.folder / "runs/a/b"
    if there:
        place.mkdir(parents=True)
    with pytest.raises((ValueError, TypeError)):
        world.attribute(store=place, shard=256, **refused)
    assert (list(place.iterdir()) == []) if there else not (world.folder / "runs").exists()


@pytest.mark.slow
def test_a_store_in_use_is_refused_with_the_process_that_uses_it(filled: World) -> None:
    before = files(filled.store)
    code = (
        f"import fcntl, os, sys; h = os.open({str(filled.store / 'lock')!r}, os.O_RDWR); fcntl.flock(h, fcntl.LOCK_EX);"
        "os.ftruncate(h, 0); os.write(h, str(os.getpid()).encode()); print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(StoreError, match=f"is being written by process {other.pid}; wait, or use another folder$"):
            filled.attribute(store=filled.store, query=make_batches(1, "new", seed=8))
    assert files(filled.store) == before
    filled.attribute(store=filled.store)


def test_two_writers_in_one_process_are_refused_too(filled: World) -> None:
    def again(progress: Any) -> None:
        filled.attribute(store=filled.store)

    with pytest.raises(StoreError, match=f"is being written by process {os.getpid()}"):
        filled.attribute(store=filled.store, progress=again)


@pytest.mark.slow
def test_a_full_disk_leaves_finished_shards_valid_and_says_so(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = world.attribute(store=world.folder / "whole", shard=2)
    whole, before = files(world.folder / "whole"), os.fsync
    room = 0

    def full(handle: int) -> None:
        nonlocal room
        room -= 1
        if room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")

    for k in (0, 1, 2, 7, 12):
        room = k
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(
            OSError, match=r"the disk is full: .* was not written; what was finished before is valid, run"
        ):
            world.attribute(store=world.store, shard=2)
        monkeypatch.setattr(os, "fsync", before)
        assert files(world.store).items() <= whole.items() if world.store.exists() else k == 0
    assert_same_result(world.attribute(store=world.store, shard=2), wanted)
    assert files(world.store) == whole


def test_files_of_others_in_the_folder_are_left_alone(filled: World) -> None:
    (key,) = (p.name for p in filled.store.iterdir() if p.name.startswith("step-9"))
    theirs = [
        "download.part",
        "checkpoints/shard-00001-of-00002.safetensors",
        "checkpoints/download.part",
        "checkpoints/train/shard-00001.safetensors",
        f"{key}/train/notes.part",
        f"{key}/other/shard-00000.safetensors",
    ]
    ours = [
        "manifest.json.part",
        "run.toml.part",
        f"{key}/train/shard-00003.safetensors.part",
        f"{key}/train/shard-00003.json.part",
        f"{key}/query/shard-00009.safetensors",
    ]
    for name in (*theirs, *ours):
        (filled.store / name).parent.mkdir(parents=True, exist_ok=True)
        (filled.store / name).write_text("precious")
    filled.attribute(store=filled.store)
    assert [name for name in theirs if not (filled.store / name).is_file()] == []
    assert [name for name in ours if (filled.store / name).is_file()] == []


def test_a_home_is_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(world.folder))
    monkeypatch.chdir(world.folder)
    result = world.attribute(store="~/store")
    result.save("~/result.safetensors")
    assert_same_result(sdi.load("~/result.safetensors"), result)
    assert Store("~/store").path == world.store
    assert not (world.folder / "~").exists()


def test_an_error_without_a_place_gets_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def limited(handle: int) -> None:
        raise OSError(errno.EFBIG, "File too large")

    monkeypatch.setattr(os, "fsync", limited)
    with pytest.raises(OSError, match=r"File too large: '.*/file'$"):
        write_whole(tmp_path / "file", b"")
    assert files(tmp_path) == {}


def test_what_is_written_is_flushed_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    for name in ("fsync", "replace"):
        before = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, before=before: (order.append(name), before(*a))[1])
    write_whole(tmp_path / "file", b"content")
    assert order == ["fsync", "replace", "fsync"]  # the content, the name, the folder
    assert files(tmp_path) == {"file": b"content"}


def test_another_error_of_the_disk_is_told_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "nowhere/file", b"")


@pytest.mark.slow
def test_each_repeat_has_a_store_of_its_own(world: World) -> None:
    result = world.attribute(store=world.store, repeats=2)
    assert sorted(p.name for p in world.store.iterdir()) == ["run.json", "seed-0", "seed-1"]
    with featurized() as calls:
        assert_same_result(world.attribute(store=world.store, repeats=2), result)
    assert not calls
    one = world.folder / "one"
    world.attribute(store=one)
    with pytest.raises(StoreError, match="is a store of one sketch; repeats=2 needs a folder of its own"):
        world.attribute(store=one, repeats=2)


def test_without_a_store_nothing_is_left(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(world.folder))
    before = sorted(world.folder.iterdir())
    world.attribute()
    assert sorted(world.folder.iterdir()) == before
