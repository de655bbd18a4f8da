"""The sketch widths of a run with spread=True, measured on its first training examples.

They are measured before the run's sketch is drawn, with a sketch of another seed, so that scores stay unbiased. An
existing store keeps the widths it was made with.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

from sdi.inputs.batches import count_examples, name_examples, take_examples
from sdi.inputs.checkpoints import Checkpoint
from sdi.inputs.settings import Settings
from sdi.run.draw_sketches import store_folder
from sdi.run.fill import Job, Side
from sdi.run.spread import best_widths, costs
from sdi.sketch.sketch_map import SketchMap
from sdi.store.store import Store

EXAMPLES, WIDTH = 8, 256  # examples measured at most, and the sketch's width: norms come out within a few per cent
SEED = -1  # which no run may have


def settled(settings: Settings, folder: Path | None, train: Iterable[Any] | None = None) -> Settings:
    """The settings with spread=None replaced by True or False: as the store in `folder` has it, else by the default.

    The default is True for one m, sketch="tensor" and family="table" (other families need a power of two), unless
    `train` is an iterator, whose first batch would be used up.
    """
    if settings.spread is not None:
        return settings
    plain = isinstance(settings.m, int) and settings.sketch == "tensor" and settings.family == "table"
    can = plain and settings.backend != "exact"
    place = None if folder is None else store_folder(settings, folder, settings.seed)
    if can and place is not None and (place / "manifest.json").is_file():
        return replace(settings, spread="spread" in Store(place).manifest["config"])
    return replace(settings, spread=can and not isinstance(train, Iterator))


def run_widths(
    place: Path, job: Job, points: Sequence[Checkpoint], sides: Mapping[str, Side], m: Any
) -> dict[str, int]:
    """The widths of the store at `place`; if there is none yet, those that `pilot_widths` measures."""
    stored = stored_widths(place)
    if stored is None:
        sides["query"].look()  # before every checkpoint is loaded
        return pilot_widths(job, points, sides["train"].loader, m)
    return stored


def pilot_widths(job: Job, points: Sequence[Checkpoint], train: Iterable[Any], m: int) -> dict[str, int]:
    """The best widths for the numbers of one m, with the error summed over checkpoints, weighted by eta^2."""
    shapes = job.backend.body_shapes(job.model, job.loop)
    sizes = {name: prod(shape) for name, shape in shapes.items()}
    sketch = SketchMap.draw(shapes, WIDTH, SEED)
    total = dict.fromkeys(shapes, 0.0)
    batch, ids = _first_examples(train)
    with job.backend.weights_kept(job.model):
        for point in points:
            model = point.load_into(job.model, job.backend)
            options = {**job.settings.pass_options, "audit": "off"}  # the run has its own
            features = job.backend.Featurizer(model, job.loss, loop=job.loop, sketch=sketch, **options)(batch, ids)
            for name, cost in costs(features).items():
                total[name] += point.eta_of(name) ** 2 * cost
    return best_widths(total, sizes, m)


def stored_widths(place: Path) -> dict[str, int] | None:
    """The width of each parameter in the store at `place`; None if there is no store, or one with a single m."""
    if not (place / "manifest.json").is_file():
        return None
    recipe = Store(place).sketch.recipe or {}
    m = recipe.get("m")
    return dict(m) if isinstance(m, Mapping) else None


def _first_examples(train: Iterable[Any]) -> tuple[Any, tuple[str, ...]]:
    again = iter(train)
    if again is train:
        raise ValueError("train must be a list or a DataLoader with spread, which reads its first batch twice")
    first = next(again, None)
    if first is None:
        raise ValueError("train gave no examples; it must be a list or a DataLoader that is not empty")
    batch, ids, _ = name_examples(first)
    n = count_examples(batch)
    return (batch if n <= EXAMPLES else take_examples(batch, slice(0, EXAMPLES), n)), ids[:EXAMPLES]
