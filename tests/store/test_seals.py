"""A bit that flips in a store, a result or a run.toml is noticed; a shard of elsewhere is refused."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from attribution_cases import World, assert_same_result, files, filled, shards, world
from cli_cases import call, made, project
from paths import TESTS

import sdi
from sdi import Store, StoreError
from sdi.inputs.config import read_config
from sdi.run.runs import Run, run
from sdi.store.manifest import read_manifest

__all__ = ["filled", "made", "project", "world"]


def flipped(path: Path, every: int = 1) -> Iterator[int]:
    """The file with each of its bits flipped in turn, or with every so-manieth; whole again afterwards."""
    content = path.read_bytes()
    for bit in range(0, 8 * len(content), every):
        bad = bytearray(content)
        bad[bit // 8] ^= 1 << bit % 8
        path.write_bytes(bad)
        yield bit
    path.write_bytes(content)


@pytest.mark.slow
def test_a_bit_flipped_anywhere_in_a_result_is_noticed(world: World) -> None:
    path = world.folder / "r.safetensors"
    result = world.attribute(train=world.options()["train"][:1])
    result.save(path)
    for _ in flipped(path):
        with pytest.raises(ValueError, match=r"r.safetensors (was altered after it|is not a result|has version)"):
            sdi.load(path)
    assert_same_result(sdi.load(path), result)


@pytest.mark.slow
def test_a_bit_flipped_anywhere_in_a_manifest_or_beside_a_shard_is_noticed(filled: World) -> None:
    for _ in flipped(filled.store / "manifest.json"):
        with pytest.raises(StoreError, match=r"manifest.json was|has version"):
            read_manifest(filled.store)
    store = Store(filled.store)
    shard = shards(filled.store)[1]
    checkpoint, side = shard.relative_to(filled.store).parts[:2]
    for _ in flipped(shard.with_suffix(".json")):
        store._shards.clear()
        with pytest.raises(StoreError, match=r"shard-0000.\.json was truncated or altered; delete it"):
            store.rows(checkpoint, side)
    for _ in flipped(shard, every=61):
        with pytest.raises(StoreError, match=r"is missing, truncated or altered"):
            store.open_shard(shard)
    assert_same_result(filled.attribute(store=filled.store), filled.attribute(shard=3))


@pytest.mark.slow
def test_a_bit_flipped_anywhere_in_a_run_toml_is_noticed_or_says_the_same(project: Path) -> None:
    call("featurize", project / "run.toml")
    path = project / "runs/first/run.toml"
    wanted = read_config(path)
    for bit in flipped(path, every=7):
        try:
            assert read_config(path) == wanted, f"bit {bit}"
        except ValueError:
            continue


@pytest.mark.slow
def test_an_edited_run_toml_says_how_to_use_it(project: Path) -> None:
    call("run", project / "run.toml")
    path = project / "runs/first/run.toml"
    text = path.read_text()
    path.write_text(text.replace("eta = [0.1, 0.05]", "eta = [0.1, 0.5]"))
    said = call("run", path, code=2).stderr
    assert "was changed after a run wrote it; if you meant to, take out its line 'sha256 = ...' under [made_by]" in said
    kept = [line for line in path.read_text().splitlines() if not line.startswith("sha256")]
    path.write_text("\n".join(kept))
    call("run", path)
    assert "eta = [0.1, 0.5]" in path.read_text()
    assert read_config(path).eta == (0.1, 0.5)  # sealed again by the run


def copy_shard(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    for end in (".json", ".safetensors"):
        shutil.copyfile(source.with_suffix(end), target.with_suffix(end))


@pytest.mark.slow
@pytest.mark.parametrize("other", [{"seed": 1}, {"dtype": "float32"}, {"m": 16}])
def test_a_shard_of_another_store_is_refused(filled: World, other: dict[str, Any]) -> None:
    filled.attribute(store=filled.folder / "other", shard=3, **other)
    shard = shards(filled.store)[-1]
    copy_shard(filled.folder / "other" / shard.relative_to(filled.store), shard)
    with pytest.raises(StoreError, match=r"belongs to another store: .*; delete it with its shard and run again$"):
        filled.attribute(store=filled.store)


@pytest.mark.parametrize("part", ["checkpoint", "side", "number"])
def test_a_shard_of_another_place_is_refused(filled: World, part: str) -> None:
    first, second = sorted(p for p in filled.store.iterdir() if p.is_dir())
    source = first / "train/shard-00001.safetensors"
    target = {
        "checkpoint": second / "train/shard-00001.safetensors",
        "side": first / "query/shard-00001.safetensors",
        "number": first / "train/shard-00007.safetensors",
    }[part]
    copy_shard(source, target)
    with pytest.raises(StoreError, match=r"belongs to another place: it says 'step-.*/train/shard-00001', this is"):
        filled.attribute(store=filled.store)


@pytest.mark.slow
def test_a_store_that_was_moved_is_the_same_store(filled: World) -> None:
    shutil.move(filled.store, filled.folder / "elsewhere")
    before = files(filled.folder / "elsewhere")
    assert_same_result(filled.attribute(store=filled.folder / "elsewhere"), filled.attribute(shard=3))
    assert files(filled.folder / "elsewhere") == before


@pytest.mark.slow
def test_two_runs_of_one_kind_leave_the_same_bytes(filled: World) -> None:
    filled.attribute(store=filled.folder / "again", shard=3)
    assert files(filled.folder / "again") == files(filled.store)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the loss's fingerprint reads bytecode of Python 3.11")
def test_a_store_without_seals_is_filled_as_it_is(tmp_path: Path) -> None:
    written = Path(shutil.copytree(TESTS / "data/written_before", tmp_path / "written"))
    store = written / "runs/plain"
    before = {p: p.read_bytes() for p in store.rglob("*") if p.suffix in (".json", ".safetensors")}
    shard = next(store.glob("step-2-*/train/shard-00000.safetensors"))
    for file in (shard, shard.with_suffix(".json")):
        file.unlink()
    the = Run.read(written / "plain.toml")
    run(the)
    assert the.made > 0
    assert json.loads(shard.with_suffix(".json").read_text()).keys() == {"ids", "contents", "tau", "sha256"}
    assert (store / "manifest.json").read_bytes() == before[store / "manifest.json"]
    keys = sorted(p.name for p in store.glob("step-*"))
    assert len({tuple(Store(store).rows(key, "train")) for key in keys}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "half", "own"])
def test_damage_to_a_file_without_a_seal_is_never_another_error_than_ours(tmp_path: Path, name: str) -> None:
    store = Path(shutil.copytree(TESTS / "data/written_before/runs" / name, tmp_path / "store"))
    for _ in flipped(store / "manifest.json", every=41):
        with suppress(StoreError):
            Store(store)
    (store / "manifest.json").write_text("[" * 100_000)
    with pytest.raises(StoreError, match=r"manifest.json was truncated or altered"):
        Store(store)
    result = store / "result.safetensors"
    for _ in flipped(result, every=101):
        with suppress(ValueError):
            sdi.load(result)
