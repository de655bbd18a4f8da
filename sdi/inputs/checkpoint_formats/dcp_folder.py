"""Checkpoint folders as torch.distributed.checkpoint (DCP) writes them.

step-9/.metadata        a pickle: which tensors there are, and in which bytes of which file each piece of them is
step-9/__0_0.distcp     pieces that rank 0 wrote, one after another, each as torch.save writes it

Every piece has its CRC-32; none says where it belongs: files of like layout that have changed places are noticed by the
folder's sha256 alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sdi.files import sha256
from sdi.inputs.checkpoint_formats.dcp_metadata import METADATA, read_layout

PIECES = ".distcp"


def is_dcp_folder(path: Path) -> bool:
    """Whether a folder holds the .metadata of a torch.distributed.checkpoint."""
    return (path / METADATA).is_file()


def dcp_sha256(folder: Path) -> str:
    """One sha256 of .metadata and of the names and contents of all files that it names."""
    files = {piece.file for entry in read_layout(folder).values() for piece in entry.pieces}
    lines = [f"{name} {sha256(folder / name)}" for name in [METADATA, *sorted(files)]]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def read_dcp(folder: Path) -> dict[str, Any]:
    """The dict that was saved, with an `Entry` for each tensor and object: {"model": {"core.weight": Entry}}."""
    content: dict[str, Any] = {}
    for place, entry in read_layout(folder).items():
        inner: Any = content
        for key in place[:-1]:
            inner = inner.setdefault(str(key), {}) if isinstance(inner, dict) else None
        if not isinstance(inner, dict) or str(place[-1]) in inner:
            raise ValueError(f"checkpoint {folder / METADATA} cannot be used: two entries are at, or within, {place}")
        inner[str(place[-1])] = entry
    return content


def read_rates(optimiser: Mapping[str, Any]) -> dict[str, Any]:
    """An optimiser's state as torch has it, as far as eta needs it: learning rates and parameter names are read.

    optimiser: its part of `read_dcp`, nested, or flattened to "param_groups.core.weight.lr". Moments are not read.
    """
    groups, state = [], dict(optimiser.get("state", {}))
    for group in optimiser.get("param_groups", {}).values():
        names = [group[key].read() for key in ("param_names", "params") if key in group]
        named = next((found for found in names if all(isinstance(name, str) for name in found)), None)
        groups.append({} if named is None else {"param_names": named})
        groups[-1] |= {"lr": group["lr"].read()} if "lr" in group else {}
    for key, entry in optimiser.items():
        kind, _, name = key.partition(".")
        name, _, what = name.rpartition(".")
        if (kind, what) == ("param_groups", "lr"):
            groups.append({"lr": entry.read(), "param_names": [name]})
        elif kind == "state" and name:
            state.setdefault(name, {})[what] = entry
    return {"param_groups": groups, "state": state}


def read_values(saved: Any) -> Any:
    """An entry's content; of a dict of entries, the dict of their contents."""
    return {name: read_values(one) for name, one in saved.items()} if isinstance(saved, dict) else saved.read()
