"""inspect: checkpoints, coverage, sizes, time and memory of a run, before it is started. Nothing is written.

One batch of each side is run three times at the first checkpoint: once to load what libraries load on first use, once
for the plan and the memory, once for the clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from sdi.backends import backend as backend_named
from sdi.inputs.batches import count_examples, name_examples, read_batches
from sdi.run.resident_memory import give_back, read_peak, start_peak
from sdi.run.runs import Run, open_stores

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Side:
    """One loader ("train" or "query"): its examples, and the time and memory of one batch."""

    examples: int
    batch: int  # examples of the batch that was timed
    steps: int  # the most loop steps seen there
    seconds: float  # for that batch
    peak_bytes: int | None  # memory it took beside what was held before; None where that cannot be seen
    stored_bytes: int  # of this side's features when the run is done
    stored_examples: int  # that need no work: at the first checkpoint


@dataclass(frozen=True)
class Inspection:
    """What a run is made of. Bytes and seconds are estimates from one batch of each side."""

    checkpoints: list[dict[str, Any]]
    parameters: list[dict[str, Any]]  # of the body: name, shape, route, calls per pass, calls outside the loop
    numbers: int  # body parameters in all
    sketched: int  # numbers per example and step that are kept
    sides: dict[str, Side]
    seconds: float
    memory_bytes: int | None
    store: str
    store_bytes: int  # when done
    stored_bytes: int  # now
    result_bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect_run(the: Run, tell: Tell = lambda text: None) -> Inspection:
    """Look at everything that a run needs, and time one batch of each side."""
    c, settings = the.config, the.config.settings
    points = the.points
    verbs = backend_named("fast" if settings.backend == "exact" else settings.backend)
    shapes = verbs.body_shapes(the.model, c.loop)
    sketch = the.draw(shapes, settings.seed)
    if settings.backend == "exact":
        sketch = type(sketch).keep(shapes)
    sides, table = {}, []
    with verbs.weights_kept(the.model):
        tell(f"loading {points[0].path.name}")
        model = points[0].load_into(the.model, verbs)
        for side, loader in the.loaders.items():
            tell(f"counting {side}")
            examples = sum(len(part.ids) for part in read_batches(loader, side))
            batch = name_examples(next(iter(loader))).batch
            tell(f"timing a batch of {side}")
            steps = settings.keeps_steps[side] and settings.backend != "exact"  # which holds no steps of queries
            options = {**settings.pass_options, "audit": "off"}
            new = partial(verbs.Featurizer, model, the.script.loss, loop=c.loop, sketch=sketch, steps=steps, **options)
            new()(batch)  # thrown away: what libraries load on first use is nobody's memory
            make = new()
            features, seconds, peak = _measure(partial(make, batch))
            tau = int(features.tau.max())
            bytes_each = sketch.size * np.dtype(settings.dtype).itemsize * (tau if steps else 1)
            stored = 0 if settings.backend == "exact" else examples * bytes_each * len(points) * settings.repeats
            done = _stored_examples(the, side)
            sides[side] = Side(examples, count_examples(batch), tau, seconds, peak, stored, done)
            coverage = getattr(make, "coverage", None)
        if coverage is not None:
            table = [row._asdict() for row in coverage]
    n, q = sides["train"].examples, sides["query"].examples
    steps_scored = {"query": sides["query"].steps, "train": sides["train"].steps, "tracin": 1}
    steps_scored["matrix"] = steps_scored["query"] * steps_scored["train"]
    peaks = [s.peak_bytes for s in sides.values()]
    held = n * sketch.size * features.values.itemsize if settings.backend == "exact" else 0  # the training gradients
    return Inspection(
        checkpoints=[{"path": str(p.path), "eta": p.eta, "bytes": p.path.stat().st_size} for p in points],
        parameters=table or [{"parameter": name, "shape": shape} for name, shape in shapes.items()],
        numbers=sum(int(np.prod(shape)) for shape in shapes.values()),
        sketched=sketch.size,
        sides=sides,
        seconds=sum(_seconds_left(s, len(points) * settings.repeats) for s in sides.values()),
        memory_bytes=None if None in peaks else max(p for p in peaks if p is not None) + held,
        store=str(c.store),
        store_bytes=sum(s.stored_bytes for s in sides.values()),
        stored_bytes=sum(f.stat().st_size for f in c.store.rglob("shard-*") if f.is_file()),
        result_bytes=8 * n * q * steps_scored[settings.mode] * (len(points) + 1),
    )


def _seconds_left(side: Side, passes: int) -> float:
    return passes * max(side.examples - side.stored_examples, 0) * side.seconds / side.batch


def _stored_examples(the: Run, side: str) -> int:
    """How many examples of a side the store holds already, at the first checkpoint."""
    settings = the.config.settings
    if settings.backend == "exact" or not (the.place(settings.seed) / "manifest.json").is_file():
        return 0
    stored = open_stores(the, the.script.loss)[0].rows(the.points[0].key, side)
    return sum(i in stored for part in read_batches(the.loaders[side], side) for i in part.ids)


def _measure(work: Callable[[], Any]) -> tuple[Any, float, int | None]:
    """Run `work` twice: its result, the seconds of the second run, and the peak of memory above that held before.

    Memory is watched over both runs: the first takes pages that the second reuses.
    """
    give_back()
    held = start_peak()
    out = work()
    began = time.perf_counter()
    work()
    seconds = time.perf_counter() - began
    peak = read_peak()
    return out, seconds, None if held is None or peak is None else max(peak - held, 0)
