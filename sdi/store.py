"""Store: features on disk, safe to kill at any instant.

    STORE/manifest.json                              what made the features; another run must agree
    STORE/lock                                       held by the one process that may write
    STORE/CHECKPOINT/train/shard-00000.safetensors   features of some examples
    STORE/CHECKPOINT/train/shard-00000.json          their ids, contents, steps and the shard's sha256
    STORE/CHECKPOINT/query/...

A shard is done when its .json is there; everything is written beside and renamed. Rows are found by example id, so the
order of a loader does not matter, more examples append, and a new query set reuses the training side. Nothing in a
store depends on the time or the machine: a run that was killed and resumed leaves the same bytes as one that was not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors.numpy import save

from sdi.errors import SketchMismatch, StoreError, nearest
from sdi.features import Features
from sdi.files import PART, sha256, write_whole
from sdi.sketch_map import Block, SketchMap

VERSION = 1
DTYPES = ("float32", "float16", "float64")
SIDES = ("train", "query")


class Row(NamedTuple):
    """Where an example stands: its shard and its row there, and what it was made from."""

    shard: Path
    row: int
    content: str
    tau: int


class Store:
    """A folder of features. Open one with `Store.create` to write, or `Store(path)` to read."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        manifest = self.path / "manifest.json"
        if not manifest.is_file():
            raise StoreError(f"{self.path} is not a store: it has no manifest.json")
        self.manifest: dict[str, Any] = json.loads(manifest.read_text())
        version = self.manifest.get("version")
        if not isinstance(version, int) or version > VERSION:
            raise StoreError(
                f"store {self.path} has version {version}, this sdi reads up to {VERSION}"
            )
        self.sketch = SketchMap.from_json(json.dumps(self.manifest["sketch"]))
        self._checked: set[Path] = set()

    @classmethod
    def create(cls, path: str | Path, sketch: SketchMap, config: Mapping[str, Any]) -> Store:
        """Open a store for writing. A new one gets its manifest; an old one must have the same sketch and config."""
        path = Path(path)
        path.mkdir(parents=True, exist_ok=True)
        manifest = path / "manifest.json"
        wanted = {"version": VERSION, "sketch": json.loads(sketch.to_json()), "config": json.loads(json.dumps(config))}
        if not manifest.is_file():
            others = [p.name for p in path.iterdir() if p.name != "lock" and not p.name.endswith(PART)]
            if others:
                raise StoreError(f"{path} is not a store and not empty (it holds {others[0]!r}); give a new folder")
            write_whole(manifest, _json(wanted))
        store = cls(path)
        different = list(differences(store.manifest, wanted))
        if different:
            lines = "\n  ".join(different)
            raise StoreError(f"store {path} was made with other settings; use them, or a new folder:\n  {lines}")
        return store

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the store's lock, and clear away what a killed run left half-written."""
        with _locked(self.path / "lock"):
            for part in self.path.rglob(f"*{PART}"):
                part.unlink()
            for shard in self.path.rglob("shard-*.safetensors"):
                if not shard.with_suffix(".json").is_file():
                    shard.unlink()
            yield

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.sketch.blocks

    def rows(self, checkpoint: str, side: str) -> dict[str, Row]:
        """Every example that a side holds at a checkpoint, in the order in which they were written."""
        rows: dict[str, Row] = {}
        for sidecar in sorted((self.path / checkpoint / side).glob("shard-*.json")):
            content = json.loads(sidecar.read_text())
            shard = sidecar.with_suffix(".safetensors")
            for k, i in enumerate(content["ids"]):
                rows[i] = Row(shard, k, content["contents"][k], content["tau"][k])
        return rows

    def append(self, checkpoint: str, side: str, features: Features, contents: Sequence[str]) -> Path:
        """Write one shard."""
        if features.sketch != self.sketch.label:
            raise SketchMismatch(f"store {self.path} is for sketch {self.sketch.label}, got {features.sketch}")
        folder = self.path / checkpoint / side
        folder.mkdir(parents=True, exist_ok=True)
        number = len(list(folder.glob("shard-*.json")))
        shard = folder / f"shard-{number:05d}.safetensors"
        dtype = np.dtype(self.manifest["config"]["dtype"])
        tensors = {"values": features.values.astype(dtype)}
        if features.outside is not None:
            tensors["outside"] = features.outside.astype(dtype)
        for name, tensor in tensors.items():
            if not np.isfinite(tensor).all():
                raise StoreError(f"{name} of shard {shard} do not fit into {dtype}; store them as float32")
        write_whole(shard, save(tensors))
        sidecar = {
            "ids": list(features.ids),
            "contents": list(contents),
            "tau": features.tau.tolist(),
            "sha256": sha256(shard),
        }
        write_whole(shard.with_suffix(".json"), _json(sidecar))
        return shard

    def read(self, checkpoint: str, side: str, ids: Sequence[str]) -> Features:
        """The features of these examples, in this order, in memory."""
        rows = self.rows(checkpoint, side)
        found = [find_row(rows, i, side) for i in ids]
        parts = {shard: self.open_shard(shard) for shard in {row.shard for row in found}}
        steps = max(p["values"].shape[1] if p["values"].ndim == 3 else 0 for p in parts.values())
        width = self.sketch.size
        shape = (len(ids), steps, width) if steps else (len(ids), width)
        wide = np.result_type(np.float32, np.dtype(self.manifest["config"]["dtype"]))
        values = np.zeros(shape, dtype=wide)
        outside = np.zeros((len(ids), width), dtype=wide) if any("outside" in p for p in parts.values()) else None
        for k, row in enumerate(found):
            part = parts[row.shard]["values"][row.row]
            values[k, : len(part)] = part
            if outside is not None and "outside" in parts[row.shard]:
                outside[k] = parts[row.shard]["outside"][row.row]
        tau = np.array([row.tau for row in found])
        return Features(values, tau, self.blocks, self.sketch.label, outside, tuple(ids))

    def open_shard(self, shard: Path) -> dict[str, np.ndarray]:
        """The arrays of a shard, mapped, not read; checked against its sha256 the first time."""
        if shard not in self._checked:
            wanted = json.loads(shard.with_suffix(".json").read_text())["sha256"]
            if not shard.is_file() or sha256(shard) != wanted:
                raise StoreError(
                    f"shard {shard} is missing, truncated or altered; delete it with its .json and run again"
                )
            self._checked.add(shard)
        return map_safetensors(shard)


def find_row(rows: Mapping[str, Row], i: str, side: str) -> Row:
    if i not in rows:
        raise ValueError(f"no {side} example {i!r} among the {len(rows)} stored{nearest(i, rows)}")
    return rows[i]


def map_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file as memory maps: a header of JSON, then raw data."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    names = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
    out: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start = 8 + length + entry["data_offsets"][0]
            out[name] = np.memmap(path, names[entry["dtype"]], "r", start, tuple(entry["shape"]))
    return out


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where two manifests differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(set(old) | set(new)):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield f"{path}: {old!r} in the store, {new!r} now"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """An exclusive lock that the system drops when the process ends, however it ends."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        _take_lock(handle, path)
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)


def _take_lock(handle: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not a POSIX system: the last writer wins
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = path.read_text() or "another"
        raise StoreError(
            f"store {path.parent} is being written by process {owner}; wait, or use another folder"
        ) from None


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=1) + "\n").encode()
