"""The sketches of a run, one per repeat with consecutive seeds, and the folder of each one's store."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sdi.inputs.settings import Settings, Widths
from sdi.sketch.load import sketch_text
from sdi.sketch.sketch_map import SketchMap


def sketch_seeds(settings: Settings) -> range:
    """The seeds of a run's sketches."""
    return range(settings.seed, settings.seed + settings.repeats)


def store_folder(settings: Settings, folder: Path, seed: int) -> Path:
    """The folder of one sketch's store: the run's own, or seed-N in it if there are several sketches."""
    return folder if settings.repeats == 1 else folder / f"seed-{seed}"


def draw_sketch(
    settings: Settings, shapes: Mapping[str, tuple[int, ...]], seed: int, widths: Widths = None
) -> SketchMap:
    """The sketch map of a seed. widths: instead of settings.m, if m is spread. m=None keeps gradients whole."""
    m = settings.m if widths is None else widths
    if m is not None:
        return SketchMap.draw(shapes, m, seed, settings.family, settings.sketch)
    if settings.sketch not in ("tensor", "exact"):
        raise ValueError(
            f"m must be a width for sketch={sketch_text(settings.sketch)!r}, got None, which keeps gradients whole"
        )
    return SketchMap.keep(shapes)
