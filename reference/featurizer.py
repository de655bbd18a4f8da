"""Featurizer: `featurize` with everything but the batch given; the twin of the fast backend's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sdi.loop import Loop
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from .featurize import featurize


class Featurizer:
    """Batches -> Features, for one model, loss and loop. There is nothing to audit: this is the ground truth."""

    def __init__(
        self,
        model: Any,
        loss: Callable[[Any, Any], Any],
        *,
        loop: Loop,
        sketch: SketchMap | None = None,
        steps: bool = True,
        audit: str = "first",
        memory: str = "auto",
        budget: int | None = None,
    ) -> None:
        self.model, self.loss, self.loop, self.sketch, self.steps = model, loss, loop, sketch, steps

    def __call__(self, batch: Any, ids: Sequence[str] = ()) -> Features:
        return featurize(self.model, self.loss, batch, loop=self.loop, sketch=self.sketch, steps=self.steps, ids=ids)
