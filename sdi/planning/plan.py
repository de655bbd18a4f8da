"""plan: time, memory, disk and network of a run at sizes that nobody has run, each as a formula with its numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from typing_extensions import Unpack

from sdi.arguments import at_least_one, whole
from sdi.backends import backend as backend_named
from sdi.files import expand
from sdi.inputs.checkpoints import find_checkpoints
from sdi.inputs.settings import Settings, SettingsArguments, changed, takes_settings
from sdi.inputs.unwrap import unwrapped_model
from sdi.loop import Loop, check_loop
from sdi.planning.cost import timed
from sdi.planning.device import batch_on, device_of, is_here, on_device, same_device
from sdi.planning.measured import Measured
from sdi.planning.plan_text import Plan
from sdi.planning.predict import predict
from sdi.planning.timed_side import time_side
from sdi.planning.timed_store import time_store
from sdi.run.attribute import store_config
from sdi.run.draw_sketches import draw_sketch, sketch_seeds, store_folder
from sdi.run.fill import Job, Side
from sdi.run.resident_memory import give_back, read_peak, start_peak
from sdi.run.spread_pilot import pilot_widths, settled, stored_widths
from sdi.store.manifest import make_manifest, manifest_text

DECADES = (10**6, 10**7, 10**8, 10**9)


@takes_settings
def plan(
    model: Any,
    *,
    loss: Callable[[Any, Any], Any],
    loop: Loop,
    checkpoints: Sequence[str | Path] | str | Path,
    train: Iterable[Any],
    query: Iterable[Any],
    eta: Sequence[float] | None = None,
    store: str | Path | None = None,
    examples: Sequence[int] | int = DECADES,
    queries: int | None = None,
    hosts: int = 1,
    device: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
    settings: Settings | None = None,
    **changes: Unpack[SettingsArguments],
) -> Plan:
    """What `attribute` would take for other numbers of examples: time, memory, disk and network, as formulas.

    A few batches of each side are run at the first checkpoint, and small stores are written to a scratch folder and
    read. All else is arithmetic: batches follow one another, and the bytes of a store follow from its format.

    model, loss, loop, checkpoints, train, query, eta, store: as for `attribute`. Of train and query the first batches
        are read, and all of query unless `queries` says how many there are. An existing store gives its widths.
    examples: numbers of training examples.
    queries: their number; by default as many as there are.
    hosts: processes that fill one store, each on a machine like this one.
    device: where the run will be, such as "cuda". The batches are timed there if it is here; if not, the plan says
        nothing of time and memory there. By default where the model is.
    progress: a function that is told what is being done.
    settings: all of the settings below at once; keywords change some of them.

    Returns a `Plan`, which prints as a table.
    """
    settings = changed(settings, changes, "plan")
    check_loop(loop)
    sizes = [whole("examples", n) for n in ([examples] if isinstance(examples, int) else examples)]
    if not sizes:
        raise ValueError("examples must be at least one number of training examples, got none")
    for name, n in [*(("examples", n) for n in sizes), ("hosts", whole("hosts", hosts))]:
        at_least_one(name, n)
    if queries is not None:
        at_least_one("queries", whole("queries", queries))
    for name, loader in (("train", train), ("query", query)):
        if isinstance(loader, Iterator):
            raise ValueError(
                f"{name} must be a list or a DataLoader, of which a plan takes the first batches and leaves all to the "
                f"run, got a {type(loader).__name__}, which is used up"
            )
    if settings.backend == "exact":
        raise ValueError("backend must be 'fast' or 'reference', got 'exact', which keeps no features to plan for")
    model = unwrapped_model(model)
    asked = device_of(model) if device is None else device
    here = is_here(asked)
    points, finding = timed(partial(find_checkpoints, checkpoints, eta))
    settings = settled(settings, None if store is None else expand(store), train)
    backend = backend_named(settings.backend)
    with ExitStack() as stack:
        move = here and not same_device(asked, device_of(model))
        if move:
            stack.enter_context(on_device(model, asked))
        place = batch_on if move else lambda batch, device: batch
        timed_on = device_of(model)
        stack.enter_context(backend.weights_kept(model))
        shapes = backend.body_shapes(model, loop)
        job = Job(backend, model, loss, loop, settings)
        known = (
            stored_widths(store_folder(settings, expand(store), settings.seed)) if store and settings.spread else None
        )
        widths, pilot = known, None
        if settings.spread and known is None:
            progress("measuring how to spread the sketch")
            moved = _Moved(train, partial(place, device=asked)) if move else train
            m: Any = settings.m  # one number, where the sketch is spread
            widths, pilot = timed(partial(pilot_widths, job, points, moved, m))
        progress(f"loading {points[0].path.name}")
        model, loading = timed(partial(points[0].load_into, model, backend))
        seeds = sketch_seeds(settings)
        sketches = [draw_sketch(settings, shapes, seed, widths) for seed in seeds]
        give_back()
        held = start_peak()
        makers, sides = {}, {}
        for name, loader in (("train", train), ("query", query)):
            progress(f"timing batches of {name}")
            makers[name] = backend.Featurizer(
                model, loss, loop=loop, sketch=sketches[0], steps=settings.keeps_steps[name], **settings.pass_options
            )
            sides[name] = time_side(Side(name, loader), makers[name], settings.audit, partial(place, device=asked))
        peak = read_peak()
        made_with = store_config(model, loss, loop, settings)
    if queries is None:
        progress("counting queries")
        queries = sum(len(part.ids) for part in Side("query", query).read())
    progress("writing and reading a small store")
    with tempfile.TemporaryDirectory(prefix="sdi-plan-") as scratch:
        timed_store = time_store(Path(scratch), sketches[0], settings.dtype, sides, settings.shard, queries)
    found = Measured(
        sides=sides,
        store=timed_store,
        finding=finding,
        loading=loading,
        pilot=pilot,
        held_bytes=held,
        pass_bytes=None if held is None or peak is None else max(peak - held, 0),
        keys=tuple(point.key for point in points),
        manifest_bytes=sum(len(manifest_text(make_manifest(sketch, made_with))) for sketch in sketches),
        settings=settings,
        numbers=sketches[0].size,
        timed_on=timed_on,
    )
    return predict(found, sizes, queries, hosts, asked, here)


class _Moved:
    """A loader whose batches are moved before they are given."""

    def __init__(self, loader: Iterable[Any], move: Callable[[Any], Any]) -> None:
        self.loader, self.move = loader, move

    def __iter__(self) -> Iterator[Any]:
        return map(self.move, iter(self.loader))
