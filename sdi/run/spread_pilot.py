"""pilot: the widths of a run that spreads its bytes, from the first examples of its training side.

They are looked at once, before the run's sketch is drawn, with a sketch of their own: scores stay unbiased. A store
that is there already says what widths it was made with, and whether it was spread.
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

EXAMPLES, WIDTH = 8, 256  # at most; what a sketch of this width says of a norm is within some per cent
SEED = -1  # no run's


def settled(settings: Settings, folder: Path | None, train: Iterable[Any] | None = None) -> Settings:
    """The settings with `spread` decided, where it was left open: as the store in a folder has it, or by the default.

    By default, the bytes of one width of the default sketch are spread, for which the rule is made, with tables, which
    any width may have; not where train is an iterator, whose first batch would be used up.
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
    """The widths of the store in a folder, or, where there is none yet, those that a pilot gives."""
    stored = stored_widths(place)
    if stored is None:
        sides["query"].look()  # before every checkpoint is loaded
        return pilot_widths(job, points, sides["train"].loader, m)
    return stored


def pilot_widths(job: Job, points: Sequence[Checkpoint], train: Iterable[Any], m: int) -> dict[str, int]:
    """The best widths for the bytes of one m: errors are summed over the checkpoints, each with its eta."""
    shapes = job.backend.body_shapes(job.model, job.loop)
    sizes = {name: prod(shape) for name, shape in shapes.items()}
    sketch = SketchMap.draw(shapes, WIDTH, SEED)
    total = dict.fromkeys(shapes, 0.0)
    batch = _first_examples(train)
    with job.backend.weights_kept(job.model):
        for point in points:
            model = point.load_into(job.model, job.backend)
            options = {**job.settings.pass_options, "audit": "off"}  # the run has its own
            features = job.backend.Featurizer(model, job.loss, loop=job.loop, sketch=sketch, **options)(batch)
            for name, cost in costs(features).items():
                total[name] += point.eta_of(name) ** 2 * cost
    return best_widths(total, sizes, m)


def stored_widths(place: Path) -> dict[str, int] | None:
    """Of the store in a folder; None where there is none, or one of a single m."""
    if not (place / "manifest.json").is_file():
        return None
    recipe = Store(place).sketch.recipe or {}
    m = recipe.get("m")
    return dict(m) if isinstance(m, Mapping) else None


def _first_examples(train: Iterable[Any]) -> Any:
    again = iter(train)
    if again is train:
        raise ValueError("train must be a list or a DataLoader with spread, which reads its first batch twice")
    first = next(again, None)
    if first is None:
        raise ValueError("train gave no examples; it must be a list or a DataLoader that is not empty")
    batch = name_examples(first).batch
    n = count_examples(batch)
    return batch if n <= EXAMPLES else take_examples(batch, slice(0, EXAMPLES), n)
