"""Runs without a disk: features of two checkpoints, with an eta for each parameter, for `score_store.score` to read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from sdi.inputs.checkpoints import Checkpoint
from sdi.sketch.sketch_map import Block, SketchMap
from sdi.store.features import Features
from sdi.store.share import Share
from sdi.store.store import Row

Array = np.ndarray
Score = Callable[..., Any]
SHAPES: dict[str, tuple[int, ...]] = {"core.q": (4, 3), "core.b": (9,), "core.k": (3, 4)}
MODES = ("query", "train", "matrix", "tracin")
ETAS = ({"core": 0.5, "core.b": 0.125}, {"core": 2.0, "core.q": 0.25})  # powers of two: no rounding


@dataclass(frozen=True)
class Run:
    """What a Store would give: train and query features for every checkpoint, in integers.

    As in a store, a side whose steps the mode does not ask for is summed over them.
    """

    sketch: SketchMap
    checkpoints: Sequence[Checkpoint]
    features: dict[tuple[str, str], Features]
    mode: str = "query"
    dtype: np.dtype[Any] = np.dtype(np.float64)  # noqa: RUF009  (a dtype does not change)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.sketch.blocks

    def read(self, checkpoint: str, side: str, ids: Sequence[str]) -> Features:
        found = self.features[checkpoint, side]
        return found if self.mode in (side, "matrix") else _summed(found)

    def look(self, places: Sequence[tuple[str, str]], share: Share) -> None:
        """There is one process."""

    def rows(self, checkpoint: str, side: str) -> dict[str, Row]:
        """All in one shard."""
        return {i: Row(Path("shard"), k, "", 0) for k, i in enumerate(self.features[checkpoint, side].ids)}

    def bars(self, stderr: str) -> str:
        return "bound" if stderr == "auto" else stderr

    def ids(self, side: str) -> tuple[str, ...]:
        return self.features[self.checkpoints[0].key, side].ids

    def scored(self, score: Score, mode: str, stderr: str = "auto") -> Any:
        ids = self.ids("train"), self.ids("query")
        return score(replace(self, mode=mode), self.checkpoints, *ids, mode, {}, stderr)

    def weights(self, checkpoint: Checkpoint) -> Array:
        """eta of every column."""
        widths = [b.stop - b.start for b in self.blocks]
        return np.repeat([checkpoint.eta_of(b.name) for b in self.blocks], widths)

    def sides(self, checkpoint: Checkpoint) -> tuple[Features, Features]:
        return self.features[checkpoint.key, "train"], self.features[checkpoint.key, "query"]


def _summed(of: Features) -> Features:
    return Features(of.g, of.tau, of.blocks, of.sketch, None, of.ids)


def make_run(m: int, outside: bool, seed: int = 0) -> Run:
    """Two checkpoints; three training examples of at most three steps and two queries of at most four."""
    rng = np.random.default_rng(seed)
    sketch = SketchMap.draw(SHAPES, m=m)
    checkpoints = [Checkpoint(Path(f"step-{k}"), eta, f"{k}" * 8) for k, eta in enumerate(ETAS)]
    features = {}
    for checkpoint in checkpoints:
        for side, n, tau in (("train", 3, 3), ("query", 2, 4)):
            values = rng.integers(-9, 10, (n, tau, sketch.size)).astype(np.float64)
            values[0, -1] = 0
            taus = np.array([tau - 1] + [tau] * (n - 1))
            extra = rng.integers(-9, 10, (n, sketch.size)).astype(np.float64) if outside else None
            features[checkpoint.key, side] = Features(values, taus, sketch.blocks, sketch.label, extra)
    return Run(sketch, checkpoints, features)
