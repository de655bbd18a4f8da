"""attribute: from a model, checkpoints and data to a Result, in one call."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from typing_extensions import Unpack

from sdi.backends import backend as backend_named
from sdi.errors import StoreError
from sdi.files import expand, refuse_url
from sdi.inputs.checkpoints import Checkpoint, find_checkpoints, shows_adam
from sdi.inputs.fingerprint import loop_names, loss_fingerprint, loss_parts, model_fingerprint
from sdi.inputs.frozen import frozen_note
from sdi.inputs.settings import Settings, SettingsArguments, changed, takes_settings
from sdi.loop import Loop, check_loop
from sdi.ranks import find_share, whole_model
from sdi.result.result import Result
from sdi.result.score_store import score
from sdi.run.draw_sketches import draw_sketch, sketch_seeds, store_folder
from sdi.run.fill import Job, Progress, Side, fill
from sdi.run.progress_bar import telling
from sdi.run.run_record import save_record
from sdi.run.score_exactly import score_exactly
from sdi.run.spread_pilot import run_widths, settled
from sdi.scores.standard_error import Z95
from sdi.sketch.load import sketch_text
from sdi.store.manifest import LOSS_PARTS, refuse_other
from sdi.store.share import Share
from sdi.store.store import Store
from sdi.version import __version__

RECORDED = ("m", "spread", "seed", "family", "sketch", "repeats", "mode", "backend", "stderr", "audit")  # in a result

ADAM = (
    "trained by Adam, as the optimiser's state shows: it does not step along the gradient, so a score ranks examples "
    "and is no loss change; sdi.through_training predicts those"
)


@takes_settings
def attribute(
    model: Any,
    *,
    loss: Callable[[Any, Any], Any],
    loop: Loop,
    checkpoints: Sequence[str | Path] | str | Path,
    train: Iterable[Any],
    query: Iterable[Any],
    eta: Sequence[float] | None = None,
    store: str | Path | None = None,
    progress: Callable[[Progress], None] | bool = False,
    ranks: bool = True,
    settings: Settings | None = None,
    **changes: Unpack[SettingsArguments],
) -> Result:
    """Influence of every training example on every loop step of every query, summed over checkpoints.

    model: any `nn.Module` (a `sdi.reference` model with backend="reference"). It leaves as it came. Of a wrapped one
        (DistributedDataParallel, torch.compile) the plain model inside is used, with its names, also by `loss`; of one
        that fully_shard has cut up over ranks, a copy that every rank gathers whole.
    loss: a function of the model and a batch that returns one value per example.
    loop: whose parameters are traced, and which module's call begins a step.
    checkpoints: files of weights, by paths or patterns, each with its eta.
    train, query: iterables of batches, read once per checkpoint, and the queries once before all, for their ids. The id
        of an example is its batch's "id", or a digest.
    eta: the weight of each checkpoint, its learning rate; by default what the checkpoints themselves say.
    store: a folder to keep features in. A run that was stopped goes on where it was; a new query set reuses the rest.
    progress: True draws a bar on a terminal or in a notebook; a function is called after every batch with how far the
        run is.
    ranks: whether the ranks of a torch.distributed job, where one is initialised, share the work; then each must make
        this call with one and the same store, and gets the whole result. False: this process works alone.
    settings: all of the settings below at once; keywords change some of them.

    Returns a `Result`: `sdi` and `stderr` (train, query, step) in mode "query", `tracin` (train, query).
    """
    settings = changed(settings, changes, "attribute")
    check_loop(loop)
    refuse_url("store", store)
    if not callable(loss):
        raise TypeError(f"loss must be a function of the model and a batch, got {loss!r}")
    model = whole_model(model, ranks)
    points = find_checkpoints(checkpoints, eta)
    for name, loader in (("train", train), ("query", query)):
        if isinstance(loader, Iterator) and len(points) * settings.repeats > 1:
            raise ValueError(
                f"{name} must be a list or a DataLoader, which can be read again for each of {len(points)} checkpoints "
                f"and {settings.repeats} repeats, got a {type(loader).__name__}, which is used up after one; write "
                "list(...)"
            )
    settings = settled(settings, None if store is None else expand(store), train)
    share = find_share() if ranks else Share()
    info = run_info(points, settings, loop, frozen_note(model, loop))
    bar = telling(progress, (train, query), len(points) * settings.repeats)
    sides = {"train": Side("train", train), "query": Side("query", query)}
    if settings.backend == "exact":
        if store is not None:
            raise ValueError(f"store must be None with backend='exact', which keeps no features, got {str(store)!r}")
        if settings.repeats > 1:
            raise ValueError(
                f"repeats must be 1 with backend='exact', which has no sketch to draw again, got {settings.repeats}"
            )
        with bar as tell:
            return score_exactly(model, loss, loop, points, sides, settings, info, tell)
    if store is None and share.n > 1:
        raise ValueError(
            f"store must be a folder that all {share.n} ranks can write to, got None; or give ranks=False, and this "
            "process works alone"
        )
    with tempfile.TemporaryDirectory(prefix="sdi-") as scratch, bar as tell:
        job = Job(backend_named(settings.backend), model, loss, loop, settings, tell, share)
        folder = Path(scratch) if store is None else expand(store)
        stores = make_stores(folder, job, points, sides)
        ids = fill(stores, job, points, sides)
        if store is not None and share.leads:
            save_record(folder, settings, points, ids, folder / "result.safetensors", scored=False)
        names = (ids["train"], ids["query"], settings.mode, info, settings.stderr, share)
        results = [score(one, points, *names) for one in stores]
        return average(results) if len(results) > 1 else results[0]


def make_stores(folder: Path, job: Job, points: Sequence[Checkpoint], sides: Mapping[str, Side]) -> list[Store]:
    """The stores of a run, one for each of its sketches, ready to be filled."""
    settings = job.settings
    if settings.repeats > 1 and (folder / "manifest.json").exists():
        raise StoreError(f"{folder} is a store of one sketch; repeats={settings.repeats} needs a folder of its own")
    shapes = job.backend.body_shapes(job.model, job.loop)
    for point in points:
        for name in shapes:
            point.eta_of(name)
    made_with = store_config(job.model, job.loss, job.loop, settings)
    seeds = sketch_seeds(settings)
    places = [store_folder(settings, folder, seed) for seed in seeds]
    widths = job.share.first(run_widths(places[0], job, points, sides, settings.m) if settings.spread else None)
    if widths is not None and set(widths) != set(shapes):  # those of a store with another body
        config = json.loads(json.dumps(made_with))
        refuse_other({"config": Store(places[0]).manifest["config"]}, {"config": config}, places[0])
    drawn = [draw_sketch(settings, shapes, seed, widths) for seed in seeds]
    return [Store.create(place, one, made_with) for place, one in zip(places, drawn, strict=True)]


def store_config(model: Any, loss: Any, loop: Loop, settings: Settings) -> dict[str, Any]:
    """The settings that stored features depend on besides the sketch; a store refuses to be filled with others."""
    return {
        **({"spread": settings.m} if settings.spread else {}),
        "model": model_fingerprint(model),
        **_loss_config(loss, settings.loss_id),
        "loop": loop_names(model, loop),
        "backend": settings.backend,
        "steps": settings.keeps_steps,
        "dtype": settings.dtype,
    }


def _loss_config(loss: Any, loss_id: str | None) -> dict[str, Any]:
    """What a store knows a loss by: the id it was given; or a digest, and its parts, to say which one changed."""
    if loss_id is not None:
        return {"loss": f"id {loss_id!r}"}
    return {"loss": loss_fingerprint(loss), LOSS_PARTS: loss_parts(loss)}


def average(results: Sequence[Result]) -> Result:
    """The mean over R independent sketches, and the standard error that their spread shows.

    The spread of few sketches is itself uncertain: it is widened by Student's t over the normal quantile, so that here
    too score +- 1.96 stderr is a 95% interval.
    """
    from scipy.special import stdtrit  # not at the top: `import sdi` loads no SciPy

    first, R = results[0], len(results)
    factor = stdtrit(R - 1, 0.975) / Z95 / np.sqrt(R)

    def spread(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.asarray(factor * np.std(parts, axis=0, ddof=1, dtype=np.float64))

    changed_arrays = {
        "by_checkpoint": np.mean([r.arrays["by_checkpoint"] for r in results], axis=0),
        "outside": np.mean([r.arrays["outside"] for r in results], axis=0),
        "stderr": spread([r.sdi_values for r in results]),
        "tracin_stderr": spread([r.tracin_values for r in results]),
    }
    return replace(first, arrays={**first.arrays, **changed_arrays})


def run_info(points: Sequence[Checkpoint], settings: Settings, loop: Loop, also: Sequence[str] = ()) -> dict[str, Any]:
    """The `info` of a Result: settings, checkpoints, versions and notes; of a loop within a loop, `inner`."""
    notes = list(also)
    for p in points:
        rates = p.eta if isinstance(p.eta, dict) else {"all": p.eta}
        zero = [name for name, eta in rates.items() if eta == 0]
        if len(zero) == len(rates):
            notes.append(f"checkpoint {p.path.name} has eta 0 and adds nothing")
        elif zero:
            notes.append(f"checkpoint {p.path.name} has eta 0 for {', '.join(zero)}, which add nothing")
    if any(shows_adam(p.path) for p in points):
        notes.append(ADAM)
    etas = {p.key: p.eta for p in points}
    recorded = {name: getattr(settings, name) for name in RECORDED}
    recorded["m"] = None if settings.backend == "exact" else settings.m
    recorded["sketch"] = sketch_text(settings.sketch)
    inner = {} if loop.inner is None else {"inner": loop.inner}
    return {"sdi": __version__, "settings": recorded, "eta": etas, "notes": notes, **inner}
