"""A store in object storage is read as a folder is: the same numbers, the same refusals; shards are fetched once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import fsspec
import pytest
from attribution_cases import World, counting, filled, shards, world
from cli_cases import call

import sdi
from sdi import Store, StoreError, find_checkpoints
from sdi.result.score_store import score
from sdi.store.remote import cache_folder

__all__ = ["filled", "world"]
URL = "memory://bucket/runs/first"


@pytest.fixture
def bucket(filled: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The filled store, in memory, with things beside it; the cache in the world's folder."""
    monkeypatch.setenv("SDI_CACHE", str(filled.folder / "cache"))
    memory = fsspec.filesystem("memory")
    for file in filled.store.rglob("*"):
        if file.is_file():
            memory.pipe(f"/bucket/runs/first/{file.relative_to(filled.store)}", file.read_bytes())
    memory.pipe("/bucket/runs/other/manifest.json", b"another's")
    yield memory
    memory.rm("/bucket", recursive=True)


def everything(filled: World, store: Store) -> bytes:
    points = find_checkpoints(filled.folder / "ckpt/*.safetensors")
    result = score(store, points, [f"t-{k}" for k in range(7)], ["q-0", "q-2"], "query", {})
    tops = sdi.stream_top(store, points, ["q-0"], 7)
    return b"".join(a.tobytes() for a in result.arrays.values()) + repr(tops).encode()


def fetches(memory: Any) -> Any:
    return counting(type(memory), "open", lambda self, path, mode="rb", *more: path)


def test_a_remote_store_gives_the_numbers_of_the_folder_and_fetches_each_shard_once(filled: World, bucket: Any) -> None:
    with fetches(bucket) as opened:
        assert everything(filled, Store(URL)) == everything(filled, Store(filled.store))
        first = len(opened)
        assert everything(filled, Store(URL + "/")) == everything(filled, Store(filled.store))
    assert sorted(path for path in opened if path.endswith(".safetensors")) == sorted(
        f"/bucket/runs/first/{shard.relative_to(filled.store)}" for shard in shards(filled.store)
    )
    assert first == 8
    kept = sorted(cache_folder().iterdir())
    assert [file.name for file in kept] == sorted(sha256(s.read_bytes()).hexdigest() for s in shards(filled.store))
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700


def test_only_shards_that_are_needed_are_fetched(filled: World, bucket: Any) -> None:
    store = Store(URL)
    key = find_checkpoints(filled.folder / "ckpt/*.safetensors")[0].key
    assert len(store.rows(key, "train")) == 7
    assert list(cache_folder().iterdir()) == []
    store.read(key, "train", ["t-4"])
    assert len(list(cache_folder().iterdir())) == 1


def test_what_is_kept_is_looked_at_again_by_the_next_store_and_links_are_not_followed(
    filled: World, bucket: Any
) -> None:
    expected = everything(filled, Store(URL))
    one, other, third = sorted(cache_folder().iterdir())[:3]
    one.write_bytes(b"altered")
    whole = other.read_bytes()
    (filled.folder / "precious").write_bytes(whole)
    other.unlink()
    other.symlink_to(filled.folder / "precious")
    os.link(third, filled.folder / "linked")
    assert everything(filled, Store(URL)) == expected
    assert [file.is_symlink() for file in (one, other, third)] == [False] * 3
    assert third.stat().st_nlink == 1
    assert (filled.folder / "precious").read_bytes() == whole


def test_an_altered_shard_is_refused_and_not_kept(filled: World, bucket: Any) -> None:
    shard = next(path for path in bucket.find("/bucket/runs/first") if path.endswith("train/shard-00001.safetensors"))
    good = bucket.cat_file(shard)
    for bad in (good[:-1], good[:-1] + bytes([good[-1] ^ 1]), b""):
        bucket.pipe(shard, bad)
        with pytest.raises(StoreError, match=rf"^memory:/{shard} is truncated or altered"):
            everything(filled, Store(URL))
    bucket.rm(shard)
    with pytest.raises(StoreError, match=rf"^memory:/{shard} does not exist$"):
        everything(filled, Store(URL))
    names = {file.name for file in cache_folder().iterdir()}
    assert sha256(good).hexdigest() not in names
    assert not [name for name in names if len(name) != 64]


def test_a_shard_in_another_place_is_refused_as_on_a_disk(filled: World, bucket: Any) -> None:
    labels = sorted(path for path in bucket.find("/bucket/runs/first") if "/train/" in path and path.endswith(".json"))
    bucket.pipe(labels[0], bucket.cat_file(labels[1]))
    with pytest.raises(StoreError, match="belongs to another place"):
        everything(filled, Store(URL))


def test_names_that_are_not_a_stores_own_are_left_where_they_are(filled: World, bucket: Any) -> None:
    for name in ("../evil.json", "x-12345678/train/../../../evil.json", "x-12345678/train/notes.json", "a/b/c.json"):
        bucket.store[f"/bucket/runs/first/{name}"] = bucket.store["/bucket/runs/other/manifest.json"]
    folder = Store(URL).path
    found = {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
    own = {str(file.relative_to(filled.store)) for file in filled.store.rglob("*.json")}
    assert found == own
    assert not (folder.parent / "evil.json").exists()


def test_what_is_no_store_or_no_place_for_one_is_named(filled: World, bucket: Any) -> None:
    for url, words in (
        ("memory://bucket/none", "memory://bucket/none (is not a store: it has no manifest.json|does not exist)"),
        ("http://localhost/store", "http://localhost/store has no list of its files"),
        ("simplecache::memory://bucket/runs/first", "has no list of its files|is not a store"),
        ("nosuch://me:secret@bucket/x", r"^nosuch://bucket/x cannot be read: ValueError: Protocol not known"),
    ):
        with pytest.raises(StoreError, match=words):
            Store(url)
    for write in (
        lambda: filled.attribute(store=URL),
        lambda: Store.create(URL, Store(filled.store).sketch, {}),
    ):
        with pytest.raises(ValueError, match=r"^store must be a folder on a disk .* got 'memory://bucket/runs/first'"):
            write()


def test_a_cache_that_others_can_write_to_is_refused(filled: World, bucket: Any) -> None:
    cache_folder().chmod(0o777)
    with pytest.raises(StoreError, match="can be written by others; set SDI_CACHE to your own"):
        everything(filled, Store(URL))


def test_commands_read_a_run_from_object_storage(filled: World, bucket: Any, tmp_path: Path) -> None:
    here = call("top", filled.store, "--query", "q-1", "-k", 7).stdout
    assert call("top", URL, "--query", "q-1", "-k", 7).stdout == here
    assert call("ids", URL, "--side", "query").stdout == "q-0\nq-1\nq-2\n"
    assert "is not a store" in call("top", "memory://bucket/none", "--query", "q-1", code=2).output
