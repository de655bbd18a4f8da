"""attribute: from a model, checkpoints and data to a Result, in one call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sdi.arguments import AUDITS, MEMORIES, at_least_one, check_budget, not_negative, one_of, whole
from sdi.backends import backend as backend_named
from sdi.errors import StoreError
from sdi.files import expand
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints
from sdi.inputs.fingerprint import loop_names, loss_fingerprint, model_fingerprint
from sdi.loop import Loop, check_loop
from sdi.result.labelled import Labelled
from sdi.result.result import MODES, Result
from sdi.result.score_store import score
from sdi.run.draw_sketches import Drawing
from sdi.run.fill import Job, Progress, Side, fill
from sdi.run.score_exactly import score_exactly
from sdi.run.spread_pilot import check_spread, run_widths
from sdi.scores.standard_error import Z95
from sdi.sketch.hashing import FAMILIES
from sdi.sketch.load import SketchSpec
from sdi.store.store import DTYPES, Store
from sdi.version import __version__

BACKENDS = ("fast", "exact", "reference")


def attribute(
    model: Any,
    *,
    loss: Callable[[Any, Any], Any],
    loop: Loop,
    checkpoints: Sequence[str | Path] | str | Path,
    train: Iterable[Any],
    query: Iterable[Any],
    m: int | Mapping[str, int] | None = 2048,
    spread: bool = False,
    seed: int = 0,
    family: str = "table",
    sketch: SketchSpec = "tensor",
    eta: Sequence[float] | None = None,
    mode: str = "query",
    backend: str = "fast",
    store: str | Path | None = None,
    dtype: str = "float32",
    repeats: int = 1,
    shard: int = 256,
    audit: str = "first",
    memory: str = "auto",
    budget: int | None = None,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """Influence of every training example on every loop step of every query, summed over checkpoints.

    train, query: iterables of batches, read once per checkpoint, and the queries once before all, for their ids. The id
    of an example is its batch's "id", or a digest.
    mode: "query" (steps of the query), "train" (steps of the training example), "matrix" (both), "tracin" (none).
    backend: "fast"; "exact", without sketches or error; "reference", dense NumPy for `sdi.reference` models.
    sketch: what gradients are sketched with: a shipped name, an import path, a class, or a mapping (`SketchMap.draw`).
    m: sketch width, or one for each parameter (`sdi.spread`); None keeps every gradient whole.
    spread: give parameters with large gradients more of the bytes of m, and others less, by a look at a few examples.
    repeats: average over so many sketches and measure the error.
    store: a folder to keep features in. A run that was stopped goes on where it was; a new query set reuses the rest.
    """
    if isinstance(m, Mapping):
        m = {name: whole(f"m of {name!r}", width) for name, width in m.items()}
    elif m is not None:
        m = whole("m", m)
        at_least_one("m", m)
    seed, repeats, shard = whole("seed", seed), whole("repeats", repeats), whole("shard", shard)
    budget = None if budget is None else whole("budget", budget)
    one_of("mode", mode, tuple(MODES))
    one_of("backend", backend, BACKENDS)
    one_of("dtype", dtype, DTYPES)
    one_of("family", family, FAMILIES)
    one_of("audit", audit, AUDITS)
    one_of("memory", memory, MEMORIES)
    check_budget(budget)
    not_negative("seed", seed)
    at_least_one("repeats", repeats)
    at_least_one("shard", shard)
    check_loop(loop)
    if not callable(loss):
        raise TypeError(f"loss must be a function of the model and a batch, got {loss!r}")
    if spread:
        check_spread(m, backend)
    points = find_checkpoints(checkpoints, eta)
    for name, loader in (("train", train), ("query", query)):
        if isinstance(loader, Iterator) and len(points) * repeats > 1:
            raise ValueError(
                f"{name} must be a list or a DataLoader, which can be read again for each of {len(points)} checkpoints "
                f"and {repeats} repeats, got a {type(loader).__name__}, which is used up after one; write list(...)"
            )
    drawing = Drawing(None if backend == "exact" else m, spread, seed, family, sketch, repeats)
    info = run_info(points, drawing, mode, backend)
    sides = {"train": Side("train", train), "query": Side("query", query)}
    options: dict[str, Any] = {"audit": audit, "memory": memory, "budget": budget}
    if backend == "exact":
        if store is not None:
            raise ValueError(f"store must be None with backend='exact', which keeps no features, got {str(store)!r}")
        if repeats > 1:
            raise ValueError(
                f"repeats must be 1 with backend='exact', which has no sketch to draw again, got {repeats}"
            )
        return score_exactly(model, loss, loop, points, sides, mode, options, info, progress)
    job = Job(backend_named(backend), model, loss, loop, options, shard, progress)
    made_with = store_config(model, loss, loop, backend, mode, dtype, drawing)
    with tempfile.TemporaryDirectory(prefix="sdi-") as scratch:
        folder = Path(scratch) if store is None else expand(store)
        stores = make_stores(folder, job, points, sides, made_with, drawing)
        ids = fill(stores, job, points, sides, steps_of(mode))
        results = [score(one, points, ids["train"], ids["query"], mode, info) for one in stores]
    return results[0] if repeats == 1 else average(results)


def make_stores(
    folder: Path,
    job: Job,
    points: Sequence[Checkpoint],
    sides: Mapping[str, Side],
    made_with: Mapping[str, Any],
    drawing: Drawing,
) -> list[Store]:
    """The stores of a run, one for each of its sketches, ready to be filled."""
    if drawing.repeats > 1 and (folder / "manifest.json").exists():
        raise StoreError(f"{folder} is a store of one sketch; repeats={drawing.repeats} needs a folder of its own")
    shapes = job.backend.body_shapes(job.model, job.loop)
    for point in points:
        for name in shapes:
            point.eta_of(name)
    places = [drawing.place(folder, seed) for seed in drawing.seeds]
    widths = run_widths(places[0], job, points, sides, drawing.m) if drawing.spread else None
    drawn = [drawing.draw(shapes, seed, widths) for seed in drawing.seeds]
    return [Store.create(place, one, made_with) for place, one in zip(places, drawn, strict=True)]


def steps_of(mode: str) -> dict[str, bool]:
    """Which side keeps its steps."""
    return {"train": mode in ("train", "matrix"), "query": mode in ("query", "matrix")}


def store_config(
    model: Any, loss: Any, loop: Loop, backend: str, mode: str, dtype: str, drawing: Drawing
) -> dict[str, Any]:
    """What features depend on besides the sketch, and the m whose bytes were spread: a store refuses another."""
    return {
        **({"spread": drawing.m} if drawing.spread else {}),
        "model": model_fingerprint(model),
        "loss": loss_fingerprint(loss),
        "loop": loop_names(model, loop),
        "backend": backend,
        "steps": steps_of(mode),
        "dtype": dtype,
    }


def average(results: Sequence[Result]) -> Result:
    """The mean over R independent sketches, and the standard error that their spread shows.

    The spread of few sketches is itself uncertain: it is widened by Student's t over the normal quantile, so that here
    too score +- 1.96 stderr is a 95% interval.
    """
    from scipy.special import stdtrit  # not at the top: `import sdi` loads no SciPy

    first, R = results[0], len(results)
    factor = stdtrit(R - 1, 0.975) / Z95 / np.sqrt(R)

    def mean(name: str) -> Labelled:
        arrays = [getattr(r, name) for r in results]
        return Labelled(np.mean([a.values for a in arrays], axis=0), arrays[0].dims, arrays[0].coords)

    def spread(name: str) -> Labelled:
        arrays = [getattr(r, name) for r in results]
        spread = np.std([a.values for a in arrays], axis=0, ddof=1, dtype=np.float64)
        return Labelled(factor * spread, arrays[0].dims, arrays[0].coords)

    return Result(
        mode=first.mode,
        by_checkpoint=mean("by_checkpoint"),
        outside=mean("outside"),
        stderr=spread("sdi"),
        tracin_stderr=spread("tracin"),
        tau=first.tau,
        info=first.info,
    )


def run_info(points: Sequence[Checkpoint], drawing: Drawing, mode: str, backend: str) -> dict[str, Any]:
    """What a result says of how it was made, and what a reader should know."""
    notes = []
    for p in points:
        rates = p.eta if isinstance(p.eta, dict) else {"all": p.eta}
        zero = [name for name, eta in rates.items() if eta == 0]
        if len(zero) == len(rates):
            notes.append(f"checkpoint {p.path.name} has eta 0 and adds nothing")
        elif zero:
            notes.append(f"checkpoint {p.path.name} has eta 0 for {', '.join(zero)}, which add nothing")
    etas = {p.key: p.eta for p in points}
    settings = {**drawing.described(), "mode": mode, "backend": backend}
    return {"sdi": __version__, "settings": settings, "eta": etas, "notes": notes}
