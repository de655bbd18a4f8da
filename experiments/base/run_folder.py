"""The folder of an experiment: seeds, checkpoints of an untrained model, and analyses that are made once and kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from sdi.files import write_whole

from .settings import ExperimentSettings
from .training import write_checkpoint

Say = Callable[[str], None]


def check_seeds(seeds: Sequence[int]) -> None:
    """Refuse seeds that are not different numbers from 0."""
    if not seeds or len(set(seeds)) != len(seeds) or min(seeds) < 0:
        raise ValueError(f"seeds must be different numbers from 0, at least one, got {list(seeds)}")


def make_folder(folder: Path) -> None:
    """Make a folder, or refuse what is no folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise ValueError(f"folder must be a folder, or one that can be made, got {folder}: a file is there") from None


def write_json(path: Path, content: Any) -> None:
    """Write `content` as JSON to `path`, atomically."""
    write_whole(path, (json.dumps(content) + "\n").encode())


def write_untrained(folder: Path, model: nn.Module, eta: float) -> None:
    """A single checkpoint, of step 0, in `folder` of a `model` as it is, with `eta` as its rate: for a control."""
    write_checkpoint(folder, 0, {n: p.detach() for n, p in model.named_parameters()}, eta)


def checkpoints_in(folder: Path) -> list[Path]:
    """The checkpoints of a training folder, in order."""
    return sorted((folder / "checkpoints").glob("*.safetensors"))


def made_of(settings: ExperimentSettings, checkpoints: Sequence[Path]) -> dict[str, Any]:
    """What an analysis is made of, for `kept`. settings: all of them. checkpoints: those that it reads."""
    return {**settings.to_dict(), "checkpoints": [point.stem for point in checkpoints]}


def kept(path: Path, of: dict[str, Any], make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `make` answers, kept in the JSON file `path` together with how long it took and what it was made `of`.

    of: plain values. A file that was made of the same is read instead of calling `make`.
    """
    if path.exists():
        found: dict[str, Any] = json.loads(path.read_text())
        if found.get("of") == json.loads(json.dumps(of)):
            return found
    began = time.monotonic()
    content = {**make(), "of": of}
    content["seconds"] = time.monotonic() - began
    write_json(path, content)
    again: dict[str, Any] = json.loads(path.read_text())
    return again


def telling(say: Say, what: str) -> Callable[[Any], None]:
    """A function for `progress=` of `sdi.attribute` that calls `say` with lines of text; `what` begins each."""
    return lambda p: say(f"{what}: checkpoint {p.checkpoint} of {p.checkpoints}, {p.side} {p.done}")
