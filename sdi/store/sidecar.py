"""The .json beside a shard: the labels of its rows, its sha256, and the store and place it belongs to, sealed.

In stores of version 1 it names no owner, and one sha256 is of the shard and the labels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdi.errors import StoreError
from sdi.files import sha256
from sdi.seal import is_whole, sealed_json

LABELS = ("ids", "contents", "tau")
Owner = Mapping[str, str] | None  # "store", its manifest's seal, and "place" in it; None in stores of version 1


def sidecar_text(labels: Mapping[str, Any], shard: bytes, owner: Owner) -> bytes:
    """The sidecar's text. labels: ids, contents and steps. shard: the shard's bytes. owner: its store and place."""
    if owner is None:
        content = {**labels, "sha256": hashlib.sha256(shard + _labels(labels)).hexdigest()}
        return (json.dumps(content, indent=1) + "\n").encode()
    return sealed_json({**owner, "shard": hashlib.sha256(shard).hexdigest(), **labels})


def read_sidecar(path: Path, owner: Owner) -> dict[str, Any]:
    """A sidecar's content; refused if it was altered, or belongs to another store or place than `owner`."""
    altered = StoreError(f"{path} was truncated or altered; delete it with its shard and run again")
    try:
        text = path.read_bytes()
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise altered from None
    if not isinstance(content, dict) or not _are_labels(content) or not isinstance(content.get("sha256"), str):
        raise altered
    if owner is not None and not is_whole(text, content["sha256"]):
        raise altered
    for key, own in (owner or {}).items():
        if content.get(key) != own:
            raise StoreError(
                f"{path} belongs to another {key}: it says {content.get(key)!r}, this is {own!r}; delete it with its "
                "shard and run again"
            )
    return content


def check_shard(shard: Path, sidecar: Mapping[str, Any], owner: Owner) -> None:
    """Refuse a shard whose bytes are not those that were written."""
    also, digest = (_labels(sidecar), sidecar["sha256"]) if owner is None else (b"", sidecar["shard"])
    if not shard.is_file() or sha256(shard, also) != digest:
        raise StoreError(f"shard {shard} is missing, truncated or altered; delete it with its .json and run again")


def _are_labels(content: Mapping[str, Any]) -> bool:
    """Whether the content has ids, contents (both texts) and tau (integers), as lists of one length."""
    lists = [content.get(name) for name in LABELS]
    if any(not isinstance(x, list) for x in lists) or len({len(x) for x in lists if x is not None}) > 1:
        return False
    ids, contents, tau = ([] if x is None else x for x in lists)
    return all(type(x) is str for x in (*ids, *contents)) and all(type(x) is int and 0 < x < 1 << 62 for x in tau)


def _labels(sidecar: Mapping[str, Any]) -> bytes:
    return json.dumps([sidecar[name] for name in LABELS]).encode()
