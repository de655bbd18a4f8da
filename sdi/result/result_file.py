"""The file format of a result: one safetensors file; its metadata hold the arrays' labels and a sha256 of the file.

Version 1 had no seal: such a file is read as it is, as long as its labels make sense. Versions 1 and 2 have no losses.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sdi.seal import HOLE, is_whole, sealed

VERSION, LOSSLESS, UNSEALED = 3, 2, 1
Axes = Mapping[str, tuple[Any, ...]]  # the labels of each axis, by its name, in order
KEYS = {"version", "mode", "labels", "info"}


def result_bytes(
    mode: str, arrays: Mapping[str, np.ndarray], axes: Mapping[str, Axes], info: Mapping[str, Any]
) -> bytes:
    """The content of a result's file. axes: of each array."""
    labels = {n: {"dims": list(a), "coords": {d: list(c) for d, c in a.items()}} for n, a in axes.items()}
    meta = {"sha256": HOLE, "version": VERSION, "mode": mode, "labels": labels, "info": dict(info)}
    tensors = {n: np.ascontiguousarray(arrays[n]) for n in axes}
    return sealed(save(tensors, metadata={"sdi": json.dumps(meta)}))


def read_result(path: Path) -> tuple[str, dict[str, np.ndarray], dict[str, Axes], dict[str, Any]]:
    """The mode, the arrays, their axes and the info of a file; refused if it is something else, or was altered."""
    try:
        with safe_open(path, framework="np") as file:
            meta = json.loads((file.metadata() or {}).get("sdi", "{}"))
            _check(path, meta)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except _Refused as error:
        raise ValueError(str(error)) from None
    except (SafetensorError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a result of sdi: {error}") from None
    try:
        labels = meta["labels"]
        if set(labels) != set(arrays) or not isinstance(meta["info"], dict):
            raise ValueError("other labels than arrays")
        axes = {name: _axes(arrays[name], labels[name]) for name in labels}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError(f"{path} is not a result of sdi: its labels were altered") from None
    return str(meta["mode"]), arrays, axes, meta["info"]


class _Refused(Exception):
    pass


def _check(path: Path, meta: Any) -> None:
    if not isinstance(meta, dict) or not meta:
        raise _Refused(f"{path} is not a result of sdi: it is a safetensors file of something else")
    version = meta.get("version")
    if type(version) is not int or version not in (UNSEALED, LOSSLESS, VERSION):
        raise _Refused(f"{path} has version {version!r}, this sdi reads versions {UNSEALED} to {VERSION} of a result")
    if set(meta) != (KEYS if version == UNSEALED else KEYS | {"sha256"}):
        raise _Refused(f"{path} is not a result of sdi: its labels were altered")
    if version != UNSEALED:
        with path.open("rb") as file:
            head = file.read(8)
            head += file.read(int.from_bytes(head, "little"))
            if not is_whole(head, meta["sha256"], _blocks(file)):
                raise _Refused(f"{path} was altered after it was written: its content is not what its sha256 says")


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    while block := file.read(1 << 22):
        yield block


def _axes(values: np.ndarray, label: Mapping[str, Any]) -> Axes:
    if values.dtype.kind not in "fiu":
        raise ValueError(f"scores are numbers, got {values.dtype}")
    axes = {dim: tuple(label["coords"][dim]) for dim in label["dims"]}
    if len(axes) != len(label["dims"]) or values.shape != tuple(map(len, axes.values())):
        raise ValueError(f"labels of shape {[len(c) for c in axes.values()]} for numbers of shape {values.shape}")
    return axes
