"""Store: features on disk, safe to kill at any instant.

    STORE/manifest.json                              what made the features; another run must agree
    STORE/lock                                       held by the one process that may write
    STORE/CHECKPOINT/train/shard-00000.safetensors   features of some examples
    STORE/CHECKPOINT/train/shard-00000.json          their ids, contents, steps, and a sha256 of these and of the shard
    STORE/CHECKPOINT/query/...

A shard is done when its .json is there; everything is written beside and renamed. Rows are found by example id, so the
order of a loader does not matter, more examples append, and a new query set reuses the training side. Nothing in a
store depends on the time or the machine: a run that was killed and resumed leaves the same bytes as one that was not.
A folder becomes a store with its first shard; a call that is refused before leaves nothing behind.

In float16, each step of each example is divided by a power of two of its own ("values.scale"), so none is too small.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save

from sdi.arguments import one_of
from sdi.errors import SketchMismatch, StoreError, nearest
from sdi.files import PART, expand, map_safetensors, sha256, write_whole
from sdi.inputs.settings import BARS, DTYPES
from sdi.sketch.sketch_map import Block, SketchMap
from sdi.store.features import Features
from sdi.store.lock import locked
from sdi.store.shard_format import decoded, encoded
from sdi.version import __version__

VERSION = 1
NOT_COMPARED = {"sdi": None, "stderr": None}
LABELS = ("ids", "contents", "tau")
WHOLE = ("run.toml", "manifest.json", "result.safetensors")
PARTS = tuple(name + PART for name in WHOLE)
OURS = ("lock", "run.toml", "result.safetensors", *PARTS)  # what may stand in a folder before it is a store
SHARD = re.compile(r".*-[0-9a-f]{8}/(train|query)/shard-\d{5,}\.(safetensors|json)(\.part)?")


class Row(NamedTuple):
    """Where an example stands: its shard and its row there, and what it was made from."""

    shard: Path
    row: int
    content: str
    tau: int


class Store:
    """A folder of features. Open one with `Store.create` to write, or `Store(path)` to read what is there now."""

    def __init__(
        self, path: str | Path, manifest: dict[str, Any] | None = None, sketch: SketchMap | None = None
    ) -> None:
        self.path = expand(path)
        self.manifest = _read_manifest(self.path) if manifest is None else manifest
        # Read from the manifest, a sketch of a user's class is a record: opening a store runs no code of a user.
        self.sketch = SketchMap.from_json(json.dumps(self.manifest["sketch"])) if sketch is None else sketch
        self.dtype = np.dtype(self.manifest["config"]["dtype"])
        self._checked: set[Path] = set()
        self._rows: dict[tuple[str, str], dict[str, Row]] = {}

    @classmethod
    def create(cls, path: str | Path, sketch: SketchMap, config: Mapping[str, Any]) -> Store:
        """Open a store for writing. An old one must have been made with the same sketch and config."""
        made = {"sketch": json.loads(sketch.to_json()), "config": json.loads(json.dumps(config))}
        store = cls(path, {"version": VERSION, "sdi": __version__, "stderr": "estimated", **made}, sketch)
        store._refuse_if_other()
        return store

    def bars(self, stderr: str = "auto") -> str:
        """How standard errors are made: as asked, or as it was when the store was begun."""
        one_of("stderr", stderr, BARS)
        manifest = _read_manifest(self.path) if self._manifest.is_file() else self.manifest
        return manifest.get("stderr", "bound") if stderr == "auto" else stderr

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the store's lock, and clear away what a killed run, or a refused one, left."""
        new = [p for p in (self.path, *self.path.parents) if not p.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        with locked(self.path / "lock"):
            try:
                self._refuse_if_other()
                self._rows.clear()
                self._clear_away()
                yield
            finally:
                if not self._manifest.is_file():
                    (self.path / "lock").unlink()
                    with suppress(OSError):  # not empty, or another's by now
                        for folder in new:
                            folder.rmdir()

    def _clear_away(self) -> None:
        """Files of ours that are half written. Whatever else stands in the folder is another's."""
        for name in PARTS:
            (self.path / name).unlink(missing_ok=True)
        for file in list(self.path.glob("*/*/shard-*")):
            if SHARD.fullmatch(file.relative_to(self.path).as_posix()):
                lone = file.suffix == ".safetensors" and not file.with_suffix(".json").is_file()
                if lone or file.suffix == PART:
                    file.unlink()

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.sketch.blocks

    def rows(self, checkpoint: str, side: str) -> dict[str, Row]:
        """Every example that a side holds at a checkpoint, in the order in which they were written."""
        if (checkpoint, side) not in self._rows:
            rows: dict[str, Row] = {}
            for sidecar in sorted((self.path / checkpoint / side).glob("shard-*.json")):
                rows.update(_shard_rows(sidecar.with_suffix(".safetensors"), _read_sidecar(sidecar)))
            self._rows[checkpoint, side] = rows
        return self._rows[checkpoint, side]

    def append(self, checkpoint: str, side: str, features: Features, contents: Sequence[str]) -> Path:
        """Write one shard."""
        if features.sketch != self.sketch.label:
            raise SketchMismatch(f"store {self.path} is for sketch {self.sketch.label}, got {features.sketch}")
        rows = self.rows(checkpoint, side)
        folder = self.path / checkpoint / side
        # The first free number: a damaged shard that was deleted is made again in its place.
        names = (folder / f"shard-{k:05d}.safetensors" for k in count())
        shard = next(name for name in names if not name.with_suffix(".json").exists())
        content = save(encoded(features, self.dtype, shard))
        sidecar: dict[str, Any] = {"ids": list(features.ids), "contents": list(contents), "tau": features.tau.tolist()}
        sidecar["sha256"] = hashlib.sha256(content + _labels(sidecar)).hexdigest()
        if not self._manifest.is_file():
            write_whole(self._manifest, _json(self.manifest))
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(shard, content)
        write_whole(shard.with_suffix(".json"), _json(sidecar))
        rows.update(_shard_rows(shard, sidecar))
        return shard

    def read(self, checkpoint: str, side: str, ids: Sequence[str]) -> Features:
        """The features of these examples, in this order, in memory."""
        found = [find_row(self.rows(checkpoint, side), i, side) for i in ids]
        parts = {shard: self.open_shard(shard) for shard in dict.fromkeys(row.shard for row in found)}
        steps = max((p["values"].shape[1] for p in parts.values() if p["values"].ndim == 3), default=0)
        width, wide = self.sketch.size, np.result_type(np.float32, self.dtype)
        values = np.zeros((len(ids), steps, width) if steps else (len(ids), width), dtype=wide)
        outside = np.zeros((len(ids), width), dtype=wide) if any("outside" in p for p in parts.values()) else None
        for k, row in enumerate(found):
            part = decoded(parts[row.shard], "values", slice(row.row, row.row + 1))[0]
            values[k, : len(part)] = part
            if outside is not None and "outside" in parts[row.shard]:
                outside[k] = decoded(parts[row.shard], "outside", slice(row.row, row.row + 1))[0]
        tau = np.array([row.tau for row in found], dtype=np.int64)
        return Features(values, tau, self.blocks, self.sketch.label, outside, tuple(ids))

    def open_shard(self, shard: Path) -> dict[str, np.ndarray]:
        """The arrays of a shard, mapped, not read; checked against its sha256 the first time."""
        if shard not in self._checked:
            sidecar = _read_sidecar(shard.with_suffix(".json"))
            if not shard.is_file() or sha256(shard, _labels(sidecar)) != sidecar["sha256"]:
                raise StoreError(
                    f"shard {shard} is missing, truncated or altered; delete it with its .json and run again"
                )
            self._checked.add(shard)
        return map_safetensors(shard)

    @property
    def _manifest(self) -> Path:
        return self.path / "manifest.json"

    def _refuse_if_other(self) -> None:
        """What is at the path must be this store, or nothing."""
        if self._manifest.is_file():
            old = _read_manifest(self.path)
            different = list(differences({**old, **NOT_COMPARED}, {**self.manifest, **NOT_COMPARED}))
            if different:
                lines = "\n  ".join(different)
                raise StoreError(
                    f"store {self.path} was made with other settings; use them, or a new folder:\n  {lines}"
                )
        elif self.path.is_dir():
            others = [p.name for p in self.path.iterdir() if p.name not in OURS]
            if others:
                raise StoreError(
                    f"{self.path} is not a store and not empty (it holds {min(others)!r}); give a new folder"
                )
        elif self.path.exists():
            raise StoreError(f"{self.path} is a file, not a store; give a folder")


def find_row(rows: Mapping[str, Row], i: str, side: str) -> Row:
    if i not in rows:
        raise ValueError(f"no {side} example {i!r} among the {len(rows)} stored{nearest(i, rows)}")
    return rows[i]


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where two manifests differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield f"{path}: {old!r} in the store, {new!r} now"


def _read_manifest(path: Path) -> dict[str, Any]:
    manifest = path / "manifest.json"
    if not manifest.is_file():
        raise StoreError(f"{path} is not a store: it has no manifest.json")
    content = _read_json(manifest, ())
    version = content.get("version")
    if version != VERSION:
        newer = "; it was written by a newer one" if isinstance(version, int) and version > VERSION else ""
        raise StoreError(f"store {path} has version {version}, this sdi reads version {VERSION}{newer}")
    content = _read_json(manifest, ("sketch", "config"))
    if not isinstance(content["config"], dict) or content["config"].get("dtype") not in DTYPES:
        raise StoreError(f"{manifest} was altered; use a new folder")
    return content


def _read_sidecar(path: Path) -> dict[str, Any]:
    content = _read_json(path, (*LABELS, "sha256"))
    if any(not isinstance(content[name], list) for name in LABELS) or len({len(content[name]) for name in LABELS}) > 1:
        raise StoreError(f"{path} was altered; delete it with its shard and run again")
    return content


def _read_json(path: Path, keys: Sequence[str]) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except ValueError:
        content = None
    if not isinstance(content, dict) or any(key not in content for key in keys):
        raise StoreError(f"{path} was truncated or altered; delete it with what it describes and run again")
    return content


def _shard_rows(shard: Path, sidecar: Mapping[str, Any]) -> dict[str, Row]:
    return {i: Row(shard, k, sidecar["contents"][k], sidecar["tau"][k]) for k, i in enumerate(sidecar["ids"])}


def _labels(sidecar: Mapping[str, Any]) -> bytes:
    return json.dumps([sidecar[name] for name in LABELS]).encode()


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()
