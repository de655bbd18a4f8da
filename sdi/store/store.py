"""Store: features on disk, safe to kill at any instant.

    STORE/manifest.json                              what made the features; another run must agree
    STORE/lock                                       held by the one process that may write, or shared by several
    STORE/lock.part-1-of-2                           held by the first of two
    STORE/CHECKPOINT/train/shard-00000.safetensors   features of some examples
    STORE/CHECKPOINT/train/shard-00000.json          their ids, contents, steps, the shard's sha256, and whose it is
    STORE/CHECKPOINT/query/...

A shard is done when its .json is there; everything is written beside and renamed. Rows are found by example id, so the
order of a loader does not matter, more examples append, and a new query set reuses the training side. Nothing in a
store depends on the time or the machine: a run that was killed and resumed leaves the same bytes as one that was not.
A folder becomes a store with its first shard; a call that is refused before leaves nothing behind.

Manifests and .json files are sealed (`sdi/seal.py`). A shard belongs to its place in its store: its .json names both,
the store by the seal of its manifest. Stores of version 1 have neither; they are read, and filled, as they are.

In float16, each step of each example is divided by a power of two of its own ("values.scale"), so none is too small; in
int8, each parameter's part of each step has a scale.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save

from sdi.arguments import one_of
from sdi.errors import SketchMismatch, StoreError, nearest
from sdi.files import PART, expand, is_url, map_safetensors, refuse_link, refuse_url, write_first, write_whole
from sdi.inputs.settings import BARS
from sdi.sketch.sketch_map import Block, SketchMap
from sdi.store.features import Features
from sdi.store.lock import LOCK, PART_LOCK, hold_store, locked, part_lock, refuse_elsewhere, refuse_taken
from sdi.store.manifest import UNSEALED, make_manifest, manifest_text, read_manifest, read_sketch, refuse_other
from sdi.store.remote import fetched, remote_of
from sdi.store.shard_format import LOSS, decoded, encoded
from sdi.store.share import Share
from sdi.store.sidecar import Owner, check_shard, read_sidecar, sidecar_text

OF_RUNS = ("run.toml", "run.json", "result.safetensors", "report.html")
PARTS = tuple(name + PART for name in ("manifest.json", "index.safetensors", *OF_RUNS))
OURS = (LOCK, *OF_RUNS, *PARTS)  # what may stand in a folder before it is a store, with what is OF_PARTS
OF_PARTS = re.compile(rf"{PART_LOCK.pattern}|manifest\.json-\d+-of-\d+\{PART}")  # of processes that fill it together
SIDE = re.compile(r"[^/]*-[0-9a-f]{8}(/(train|query))?")
SHARD = re.compile(r".*-[0-9a-f]{8}/(train|query)/shard-\d{5,}\.(safetensors|json)(\.part)?")


class Row(NamedTuple):
    """Where an example is stored: its shard and row, and the digest of the content it was made from."""

    shard: Path
    row: int
    content: str
    tau: int


class Shards(NamedTuple):
    """What is stored of a side at a checkpoint: the row of each example, and the numbers of the shards."""

    rows: dict[str, Row]
    numbers: set[int]


class Store:
    """A folder of features. Open one with `Store.create` to write, or `Store(path)` to read what is there now.

    path: the folder; to read, also a place in object storage, such as "s3://bucket/store". manifest, sketch: by default
        read from it; `Store.create` gives them.
    """

    def __init__(
        self, path: str | Path, manifest: dict[str, Any] | None = None, sketch: SketchMap | None = None
    ) -> None:
        self.path = fetched(path) if isinstance(path, str) and is_url(path) else expand(path)
        self.manifest = read_manifest(self.path) if manifest is None else manifest
        # Read from the manifest, a sketch of a user's class is a record: opening a store runs no code of a user.
        self.sketch = read_sketch(self.manifest, self._manifest) if sketch is None else sketch
        self.dtype = np.dtype(self.manifest["config"]["dtype"])
        self._checked: dict[Path, Path] = {}  # of each shard, the file that was found whole
        self._shards: dict[tuple[str, str], Shards] = {}
        self._share = Share()

    @classmethod
    def create(cls, path: str | Path, sketch: SketchMap, config: Mapping[str, Any]) -> Store:
        """Open a store for writing; refused if one exists that was made with another sketch or config.

        path: the folder, which is made with the first shard. sketch: the sketch of its features.
        config: everything else that features depend on, as JSON values.
        """
        refuse_url("store", path)
        store = cls(path, make_manifest(sketch, config), sketch)
        store._join()
        return store

    def bars(self, stderr: str = "auto") -> str:
        """How standard errors are computed. stderr: "bound", "estimated", or "auto", as the store was begun."""
        one_of("stderr", stderr, BARS)
        return self.manifest.get("stderr", "bound") if stderr == "auto" else stderr

    @contextmanager
    def writing(self, share: Share | None = None) -> Iterator[None]:
        """Hold the store's lock within a block, and delete half-written files that a killed run left.

        share: which of several processes this is; they share the lock. Parts of an array job delete nothing.
        """
        share = share or Share()
        if share.together and share.leads:
            with self.writing():  # alone, to clear away; the others wait for it
                pass
        new = share.first([p for p in (self.path, *self.path.parents) if not p.exists()])
        try:
            with hold_store(self.path, share) as is_ours:
                try:
                    self._join()
                    self._shards.clear()
                    self._share = share
                    if share.n == 1:
                        self._clear_away()
                    yield
                finally:
                    self._share = Share()
                    if share.n == 1 and is_ours():
                        self._leave_nothing(new)
        finally:
            if share.n > 1:
                self._shards.clear()  # the others have written, too
                if not self._manifest.is_file():
                    with suppress(StoreError, OSError), locked(self.path / LOCK):  # the last of them
                        self._leave_nothing(new)

    def _leave_nothing(self, new: Sequence[Path]) -> None:
        """Delete the lock, and the folders that were made for it, where no store has come of it."""
        if not self._manifest.is_file():
            (self.path / LOCK).unlink()
            with suppress(OSError):  # not empty, or another's by now
                for folder in new:
                    folder.rmdir()

    def _clear_away(self) -> None:
        """Delete half-written files with the store's own names; all other files in the folder are left alone."""
        for name in PARTS:
            (self.path / name).unlink(missing_ok=True)
        for file in list(self.path.iterdir()):
            if OF_PARTS.fullmatch(file.name):
                if PART_LOCK.fullmatch(file.name):
                    refuse_elsewhere(file)
                file.unlink()
        for folder in (*self.path.glob("*"), *self.path.glob("*/*")):
            if SIDE.fullmatch(folder.relative_to(self.path).as_posix()):
                refuse_link(folder)
        for file in list(self.path.glob("*/*/shard-*")):
            if SHARD.fullmatch(file.relative_to(self.path).as_posix()):
                lone = file.suffix == ".safetensors" and not file.with_suffix(".json").is_file()
                if lone or file.suffix == PART:
                    file.unlink()

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The columns of each parameter in a feature."""
        return self.sketch.blocks

    def rows(self, checkpoint: str, side: str) -> dict[str, Row]:
        """The stored examples of a side ("train" or "query") at a checkpoint (its key), by id, in the order written."""
        return self._stored(checkpoint, side).rows

    def free_numbers(self, checkpoint: str, side: str) -> Iterator[int]:
        """The numbers of the next shards of a side. A damaged shard that was deleted is made again in its place."""
        taken = frozenset(self._stored(checkpoint, side).numbers)
        return (k for k in count() if k not in taken)

    def shard_path(self, checkpoint: str, side: str, number: int) -> Path:
        """The file of a shard."""
        return self.path / checkpoint / side / f"shard-{number:05d}.safetensors"

    def look(self, places: Sequence[tuple[str, str]], share: Share) -> None:
        """Let all processes that are together know what the first finds stored. places: checkpoints and sides."""
        if share.together:
            self._shards |= share.first({place: self._stored(*place) for place in places} if share.leads else {})

    def agree(self, places: Sequence[tuple[str, str]]) -> None:
        """Let all processes that fill the store together know the same as the first. places: checkpoints and sides."""
        self.look(places, self._share)
        if not part_lock(self.path, Share(0, self._share.n)).is_file():
            raise StoreError(
                f"{self._share} does not see what rank 0 writes to {self.path}; store must be one folder, on a file "
                "system that all ranks share"
            )

    def _stored(self, checkpoint: str, side: str) -> Shards:
        if (checkpoint, side) not in self._shards:
            if self._share.apart:
                self._join()  # another process may have begun the store
            rows: dict[str, Row] = {}
            numbers = set()
            for sidecar in sorted((self.path / checkpoint / side).glob("shard-*.json")):
                shard = sidecar.with_suffix(".safetensors")
                rows.update(_shard_rows(shard, read_sidecar(sidecar, self._owner(shard))))
                number = shard.stem.removeprefix("shard-")
                numbers |= {int(number)} if number.isdecimal() else set()
            self._shards[checkpoint, side] = Shards(rows, numbers)
        return self._shards[checkpoint, side]

    def append(
        self, checkpoint: str, side: str, features: Features, contents: Sequence[str], number: int | None = None
    ) -> Path:
        """Write one shard.

        checkpoint: a checkpoint's key. side: "train" or "query". features: of the examples to add.
        contents: a digest of each example's content, from `read_batches`. number: the shard's, by default the first
        that is free.
        """
        if features.sketch != self.sketch.label:
            raise SketchMismatch(f"store {self.path} is for sketch {self.sketch.label}, got {features.sketch}")
        stored = self._stored(checkpoint, side)
        number = next(self.free_numbers(checkpoint, side)) if number is None else number
        shard = self.shard_path(checkpoint, side, number)
        folder = shard.parent
        content = save(encoded(features, self.dtype, shard, (checkpoint, side)))
        sidecar: dict[str, Any] = {"ids": list(features.ids), "contents": list(contents), "tau": features.tau.tolist()}
        refuse_taken(self.path, self._share)
        self._begin()
        refuse_link(folder.parent)
        refuse_link(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(shard, content)
        write_whole(shard.with_suffix(".json"), sidecar_text(sidecar, content, self._owner(shard)))
        stored.rows.update(_shard_rows(shard, sidecar))
        stored.numbers.add(number)
        return shard

    def _begin(self) -> None:
        """Write the manifest, if there is none. Of several processes that fill a store, all use the first one's."""
        if not self._manifest.is_file():
            text, share = manifest_text(self.manifest), self._share
            if share.n == 1:
                write_whole(self._manifest, text)
            else:
                write_first(self._manifest, text, f"{share.k + 1}-of-{share.n}")
        if self._share.n > 1:
            self._join()

    def read(self, checkpoint: str, side: str, ids: Sequence[str]) -> Features:
        """The features of some examples, in the order of `ids`, in memory.

        checkpoint: a checkpoint's key. side: "train" or "query".
        """
        stored, blocks = self.rows(checkpoint, side), self.blocks
        found = [find_row(stored, i, side) for i in ids]
        parts = {shard: self.open_shard(shard) for shard in dict.fromkeys(row.shard for row in found)}
        steps = max((p["values"].shape[1] for p in parts.values() if p["values"].ndim == 3), default=0)
        width, wide = self.sketch.size, np.result_type(np.float32, self.dtype)
        values = np.zeros((len(ids), steps, width) if steps else (len(ids), width), dtype=wide)
        outside = np.zeros((len(ids), width), dtype=wide) if any("outside" in p for p in parts.values()) else None
        for k, row in enumerate(found):
            part = decoded(parts[row.shard], "values", slice(row.row, row.row + 1), blocks)[0]
            values[k, : len(part)] = part
            if outside is not None and "outside" in parts[row.shard]:
                outside[k] = decoded(parts[row.shard], "outside", slice(row.row, row.row + 1), blocks)[0]
        tau = np.array([row.tau for row in found], dtype=np.int64)
        known = all(LOSS in part for part in parts.values())
        losses = np.array([parts[row.shard][LOSS][row.row] for row in found], dtype=np.float64) if known else None
        return Features(values, tau, self.blocks, self.sketch.label, outside, tuple(ids), losses=losses)

    def rounded(self, checkpoint: str, side: str, features: Features) -> Features:
        """Features as they would be read, had they been stored: in the store's number type.

        checkpoint: a checkpoint's key. side: "train" or "query".
        """
        part = encoded(features, self.dtype, self.shard_path(checkpoint, side, 0), (checkpoint, side))
        values = decoded(part, "values", slice(None), self.blocks)
        outside = decoded(part, "outside", slice(None), self.blocks) if "outside" in part else None
        return replace(features, values=values, outside=outside)

    def open_shard(self, shard: Path) -> dict[str, np.ndarray]:
        """The arrays of a shard, mapped, not read; checked against its sha256 the first time."""
        if shard not in self._checked:
            owner = self._owner(shard)
            sidecar = read_sidecar(shard.with_suffix(".json"), owner)
            if (remote := remote_of(self.path)) is None:
                check_shard(shard, sidecar, owner)
                self._checked[shard] = shard
            elif owner is None:
                raise StoreError(
                    f"{remote.url} is a store of version {UNSEALED}, which is read from a disk only; copy it"
                )
            else:
                self._checked[shard] = remote.fetch(shard.relative_to(self.path).as_posix(), str(sidecar.get("shard")))
        return map_safetensors(self._checked[shard])

    def _owner(self, shard: Path) -> Owner:
        """What a shard's sidecar must name as its owner: the seal of the store's manifest, and the shard's place."""
        if self.manifest["version"] == UNSEALED:
            return None
        place = shard.relative_to(self.path).with_suffix("").as_posix()
        return {"store": self.manifest["sha256"], "place": place}

    @property
    def _manifest(self) -> Path:
        return self.path / "manifest.json"

    def _join(self) -> None:
        """Use the manifest at the path, if there is one; refused if it is another store's or no store's folder.

        The folder is read before the manifest is looked for, as another process may begin the store meanwhile: a
        manifest is written before all else, so what stood there without one stays without one.
        """
        others = self._others()
        if self._manifest.is_file():
            old = read_manifest(self.path)
            refuse_other(old, self.manifest, self.path)
            self.manifest = old
        elif others:
            raise StoreError(f"{self.path} is not a store and not empty (it holds {min(others)!r}); give a new folder")

    def _others(self) -> list[str]:
        """The names in the folder that are not those of files that stand there before it is a store."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            return []
        except NotADirectoryError:
            raise StoreError(f"{self.path} is a file, not a store; give a folder") from None
        return [name for name in names if name not in OURS and not OF_PARTS.fullmatch(name)]


def find_row(rows: Mapping[str, Row], i: str, side: str) -> Row:
    if i not in rows:
        raise ValueError(f"no {side} example {i!r} among the {len(rows)} stored{nearest(i, rows)}")
    return rows[i]


def _shard_rows(shard: Path, sidecar: Mapping[str, Any]) -> dict[str, Row]:
    return {i: Row(shard, k, sidecar["contents"][k], sidecar["tau"][k]) for k, i in enumerate(sidecar["ids"])}
