"""Drawing: what a run's sketches are drawn from, and where the store of each of them is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdi.sketch.load import SketchSpec, sketch_text
from sdi.sketch.sketch_map import SketchMap

Widths = int | Mapping[str, int] | None  # one for all parameters, one for each, or none: gradients stay whole


@dataclass(frozen=True)
class Drawing:
    """The settings of `attribute` that a sketch depends on; `repeats` sketches have the seeds from `seed` on."""

    m: Widths
    spread: bool
    seed: int
    family: str
    sketch: SketchSpec
    repeats: int

    @property
    def seeds(self) -> range:
        return range(self.seed, self.seed + self.repeats)

    def place(self, folder: Path, seed: int) -> Path:
        """The store of one sketch: the run's folder, or, if there are several, a folder of its own in there."""
        return folder if self.repeats == 1 else folder / f"seed-{seed}"

    def draw(self, shapes: Mapping[str, tuple[int, ...]], seed: int, widths: Widths = None) -> SketchMap:
        """The sketch of a seed, with these widths where m is spread; with m=None, none at all."""
        m = self.m if widths is None else widths
        if m is not None:
            return SketchMap.draw(shapes, m, seed, self.family, self.sketch)
        if self.sketch not in ("tensor", "exact"):
            raise ValueError(
                f"m must be a width for sketch={sketch_text(self.sketch)!r}, got None, which keeps gradients whole"
            )
        return SketchMap.keep(shapes)

    def described(self) -> dict[str, Any]:
        """As a result records it."""
        return {**vars(self), "sketch": sketch_text(self.sketch)}
