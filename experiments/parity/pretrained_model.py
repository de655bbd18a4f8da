"""pretrained: a small trained parity model that comes with the library, its checkpoints with their learning rates."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from .settings import Settings

FOLDER = Path(__file__).parent / "pretrained"


def pretrained() -> tuple[Settings, list[Path]]:
    """The settings it was trained with, with an analysis small enough for seconds, and its checkpoints in order."""
    settings = Settings(**json.loads((FOLDER / "settings.json").read_text()))
    small = replace(settings, m=512, per_tercile=8, at_longest=8, tests=64, calibration=64, evaluation=64)
    return small, sorted(FOLDER.glob("step-*.safetensors"))
