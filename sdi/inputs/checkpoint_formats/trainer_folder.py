"""Checkpoint folders as Hugging Face's Trainer writes them: weights in one safetensors file or several, its state.

checkpoint-500/model.safetensors                  or model.safetensors.index.json and the files that it names
checkpoint-500/trainer_state.json                 the learning rates that were logged, by step
checkpoint-500/optimizer.pt                       the optimiser's state
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from sdi.files import sha256

WHOLE, INDEX, STATE, OPTIMISER = (
    "model.safetensors",
    "model.safetensors.index.json",
    "trainer_state.json",
    "optimizer.pt",
)


def is_trainer_folder(path: Path) -> bool:
    """Whether a folder holds a model's weights under the names that Trainer gives them."""
    return path.is_dir() and any((path / name).is_file() for name in (WHOLE, INDEX))


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of a folder's model, in the order of their names."""
    index = folder / INDEX
    if not index.is_file():
        return [folder / WHOLE]
    try:
        names = sorted({str(name) for name in json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"checkpoint {index} is not the index of a checkpoint in several files") from None
    if not names:
        raise ValueError(f"checkpoint {index} names no file")
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            raise ValueError(f"checkpoint {index} names {name!r}, which is not a file in its folder")
    return [folder / name for name in names]


def folder_weights(folder: Path) -> dict[str, Any]:
    """The tensors of all files, by name; refused if two files hold one name."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    found: dict[str, Any] = {}
    for file in weight_files(folder):
        try:
            part = load_file(file)
        except SafetensorError as error:
            raise ValueError(f"checkpoint {file} is not a safetensors file: {error}") from None
        twice = sorted(found.keys() & part.keys())
        if twice:
            raise ValueError(f"checkpoint {folder} holds {twice[0]!r} in two files")
        found |= part
    return found


def folder_sha256(folder: Path) -> str:
    """One sha256 of the weights in a folder: that of the only file, or of the names and sha256s of several."""
    files = weight_files(folder)
    if len(files) == 1:
        return sha256(files[0])
    return hashlib.sha256("\n".join(f"{file.name} {sha256(file)}" for file in files).encode()).hexdigest()


def logged_eta(folder: Path) -> tuple[float, bool] | None:
    """The learning rate that trainer_state.json logged last, and whether that was at the folder's own step."""
    state = folder / STATE
    if not state.is_file():
        return None
    try:
        content = json.loads(state.read_text(encoding="utf-8"))
        now = int(content["global_step"])
        logged = {int(e["step"]): float(e["learning_rate"]) for e in content["log_history"] if "learning_rate" in e}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ValueError(f"{state} is not the state of a Trainer; give eta=[...]") from None
    before = [step for step in logged if step <= now]
    return (logged[max(before)], max(before) == now) if before else None
