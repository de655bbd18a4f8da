"""pretrained: a trained Sudoku model that comes with the library, its checkpoints with their learning rates.

`ship` writes the checkpoints of a finished run there, in float16.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..base import write_checkpoint, write_json
from .settings import Settings

FOLDER = Path(__file__).parent / "pretrained"


def pretrained() -> tuple[Settings, list[Path]]:
    """The settings it was trained with, with an analysis small enough for seconds, and its checkpoints in order."""
    settings = Settings(**json.loads((FOLDER / "settings.json").read_text()))
    return replace(settings, m=512, sample=16, queries=16), sorted((FOLDER / "checkpoints").glob("step-*.safetensors"))


def ship(settings: Settings, checkpoints: Sequence[Path], folder: Path = FOLDER) -> None:
    """Write a run's settings and checkpoints to `folder`, weights in float16 and each with its rate."""
    import torch

    from sdi.inputs.checkpoints import find_checkpoints

    folder.mkdir(parents=True, exist_ok=True)
    for point in find_checkpoints(checkpoints):
        assert isinstance(point.eta, float), "a Trainer writes one rate for all parameters"
        half = {name: w.to(torch.float16) for name, w in point.weights().items()}
        write_checkpoint(folder, int(point.path.stem.split("-")[1]), half, point.eta)
    write_json(folder / "settings.json", settings.to_dict())
