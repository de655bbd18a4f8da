"""The sketches of a run: one, or several with the seeds that follow one another; and where the store of each is."""

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
    """The store of one sketch: the run's folder, or, if there are several sketches, a folder of its own in there."""
    return folder if settings.repeats == 1 else folder / f"seed-{seed}"


def draw_sketch(
    settings: Settings, shapes: Mapping[str, tuple[int, ...]], seed: int, widths: Widths = None
) -> SketchMap:
    """The sketch of a seed, with these widths where m is spread; with m=None, one that keeps gradients whole."""
    m = settings.m if widths is None else widths
    if m is not None:
        return SketchMap.draw(shapes, m, seed, settings.family, settings.sketch)
    if settings.sketch not in ("tensor", "exact"):
        raise ValueError(
            f"m must be a width for sketch={sketch_text(settings.sketch)!r}, got None, which keeps gradients whole"
        )
    return SketchMap.keep(shapes)
