"""The manifest of a store: sketch and settings of its features, sealed. A run with other ones is refused.

Version 1 had no seal. Stores of it are read, and filled, as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sdi.errors import StoreError
from sdi.inputs.settings import DTYPES
from sdi.seal import is_whole, sealed_json
from sdi.sketch.sketch_map import SketchMap
from sdi.version import __version__

VERSION, UNSEALED = 2, 1
LOSS_PARTS = "loss_parts"  # in a config, beside "loss": what explains a difference there, and makes none itself
FORM = ("sha256", "version", "sdi", "stderr")  # what says nothing of the features


def make_manifest(sketch: SketchMap, config: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of a new store, with its seal."""
    content = {
        "version": VERSION, "sdi": __version__, "stderr": "estimated",
        "sketch": json.loads(sketch.to_json()), "config": dict(config),
    }  # fmt: skip
    made: dict[str, Any] = json.loads(sealed_json(content))
    return made


def manifest_text(manifest: Mapping[str, Any]) -> bytes:
    return (json.dumps(manifest, indent=1) + "\n").encode()


def read_manifest(path: Path) -> dict[str, Any]:
    manifest = path / "manifest.json"
    if not manifest.is_file():
        raise StoreError(f"{path} is not a store: it has no manifest.json")
    altered = StoreError(f"{manifest} was truncated or altered; use a new folder")
    try:
        text = manifest.read_bytes()
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise altered from None
    if not isinstance(content, dict):
        raise altered
    version = content.get("version")
    if type(version) is not int or version not in (UNSEALED, VERSION):
        newer = "; it was written by a newer one" if isinstance(version, int) and version > VERSION else ""
        raise StoreError(
            f"store {path} has version {version!r}, this sdi reads versions {UNSEALED} and {VERSION}{newer}"
        )
    keys = {"version", "sdi", "sketch", "config", *(["sha256", "stderr"] if version == VERSION else [])}
    config = content.get("config")
    if set(content) != keys or not isinstance(config, dict) or config.get("dtype") not in DTYPES:
        raise altered
    if version == VERSION and not is_whole(text, content["sha256"]):
        raise altered
    return content


def read_sketch(manifest: Mapping[str, Any], path: Path) -> SketchMap:
    try:
        return SketchMap.from_json(json.dumps(manifest["sketch"]))
    except Exception as error:  # of any kind: it may say anything
        raise StoreError(
            f"{path} was altered; use a new folder (its sketch: {type(error).__name__}: {error})"
        ) from None


def refuse_other(old: Mapping[str, Any], new: Mapping[str, Any], path: Path) -> None:
    """StoreError, with the differences, if a store's manifest is not the one that a run would write."""
    form = dict.fromkeys(FORM)
    different = list(differences({**old, **form}, {**new, **form}))
    if different:
        lines = "\n  ".join(different)
        raise StoreError(f"store {path} was made with other settings; use them, or a new folder:\n  {lines}")


def _changed_parts(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a changed loss that differ, by name, where both are known and the loss has the name it had."""
    one, other = str(old.get("loss")), str(new.get("loss"))
    if one != other and one.split(" ")[0] == other.split(" ")[0]:
        parts: list[dict[str, Any]] = [p if isinstance(p := x.get(LOSS_PARTS), dict) else {} for x in (old, new)]
        before, now = parts
        if not before or not now:
            return
        for name in sorted(set(before) | set(now)):
            if before.get(name) != now.get(name):
                yield f"loss, {name}: {before.get(name, 'none')} in the store, {now.get(name, 'none')} now"


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where two manifests differ, one line each."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = list(_changed_parts(old, new))
        yield from names
        for key in sorted((set(old) | set(new)) - {LOSS_PARTS} - ({"loss"} if names else set())):
            yield from differences(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif old != new:
        yield f"{path}: {old!r} in the store, {new!r} now"
