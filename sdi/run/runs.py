"""Run a config: `run` calls `sdi.attribute`; `featurize` only fills the store, `score` only reads it.

Everything in a run's folder comes from here: the store's own files, `run.toml`, `run.json` and the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sdi.backends import backend as backend_named
from sdi.errors import StoreError
from sdi.inputs.batches import in_order, read_batches
from sdi.inputs.checkpoints import Checkpoint
from sdi.inputs.config import Config, read_config, save_run
from sdi.inputs.script import Script, load_script
from sdi.inputs.settings import Settings
from sdi.ranks import whole_model
from sdi.result.result import Result
from sdi.result.score_store import score as score_store
from sdi.run.attribute import attribute, average, make_stores, run_info, store_config
from sdi.run.draw_sketches import draw_sketch, sketch_seeds, store_folder
from sdi.run.fill import Job, Progress, Side, fill
from sdi.run.run_record import save_record
from sdi.run.spread_pilot import settled, stored_widths
from sdi.sketch.sketch_map import SketchMap
from sdi.store.manifest import differences
from sdi.store.share import Share
from sdi.store.store import Store

Tell = Callable[[Progress], None]


class Loader:
    """The batches of a script's train() or query(), which can be iterated again: a generator is made anew each time."""

    def __init__(self, make: Callable[[], Iterable[Any]]) -> None:
        self.make = make
        self.first = make()
        if not any(hasattr(self.first, name) for name in ("__iter__", "__getitem__")):
            name = getattr(make, "__name__", "train")
            raise ValueError(f"{name}() of the script must return batches, got {self.first!r}")

    def __iter__(self) -> Iterator[Any]:
        again = iter(self.first)
        return iter(self.make()) if again is self.first else again

    def __len__(self) -> int:
        """The number of batches; TypeError if it is not known."""
        return len(self.first)  # type: ignore[arg-type]


@dataclass
class Run:
    """A config with its script, checkpoints, model and data, each loaded when first used."""

    config: Config
    path: Path | None = None  # of the config's file
    made: int = 0  # features made in this process, and those found in the store, over all checkpoints
    reused: int = 0
    share: Share = field(default_factory=Share)  # which of several processes this is, that fill the store
    _seen: dict[tuple[int, str], Progress] = field(default_factory=dict)
    _saved: bool = False

    @classmethod
    def read(cls, path: str | Path) -> Run:
        return cls(read_config(path), Path(path))

    def __str__(self) -> str:
        return str(self.path or self.config.store)

    @cached_property
    def points(self) -> list[Checkpoint]:
        return self.config.points()

    @cached_property
    def script(self) -> Script:
        return load_script(self.config.script)

    @cached_property
    def model(self) -> Any:
        model = self.script.model()
        if model is None:
            raise ValueError(f"model() in {self.config.script} must return a model, got None; does it lack a return?")
        return whole_model(model)

    @cached_property
    def loaders(self) -> dict[str, Loader]:
        return {"train": Loader(self.script.train), "query": Loader(self.script.query)}

    def ids(self) -> dict[str, tuple[str, ...]]:
        """The ids of each side in the order of a result."""
        return {
            side: in_order(i for part in read_batches(loader, side) for i in part.ids)
            for side, loader in self.loaders.items()
        }

    @property
    def settings(self) -> Settings:
        """The config's settings with `spread` decided: as the existing store has it, else by the default."""
        return settled(self.config.settings, self.config.store)

    def place(self, seed: int) -> Path:
        """The folder of the store of one sketch."""
        return store_folder(self.config.settings, self.config.store, seed)

    def draw(self, shapes: dict[str, tuple[int, ...]], seed: int) -> SketchMap:
        """The sketch map of a seed; if m is spread, with the store's widths, or with one m if there is no store yet."""
        settings = self.settings
        widths = stored_widths(self.place(settings.seed)) if settings.spread else None
        return draw_sketch(settings, shapes, seed, widths)

    def made_with(self, model: Any, loss: Any) -> dict[str, Any]:
        """The settings that the store's features depend on besides the sketch."""
        return store_config(model, loss, self.config.loop, self.settings)

    def watch(self, tell: Tell) -> Tell:
        """`tell`, preceded by counting features made and reused, and by writing run.toml once the store exists."""

        def told(progress: Progress) -> None:
            key = (progress.checkpoint, progress.side)
            before = self._seen.get(key)
            made, reused = (before.made, before.reused) if before and before.done < progress.done else (0, 0)
            self.reused += progress.reused - reused
            self.made += progress.made - made
            self._seen[key] = progress
            if (self.place(self.config.settings.seed) / "manifest.json").is_file():
                self.save()
            tell(progress)

        return told

    def save(self) -> None:
        """Write the replayable config, once, from one process."""
        if self.share.leads and not self._saved:
            save_run(replace(self.config, settings=self.settings), self.points)
            self._saved = True


def run(the: Run, tell: Tell = lambda progress: None) -> Result:
    """Call `sdi.attribute` with the config's settings, and save the result. tell: called after every batch."""
    c = the.config
    if the.share.apart:
        raise ValueError("a part of an array job makes features and no result; use `featurize`")
    exact = c.settings.backend == "exact"
    result = attribute(
        the.model,
        loss=the.script.loss,
        loop=c.loop,
        checkpoints=c.checkpoints,
        train=the.loaders["train"],
        query=the.loaders["query"],
        eta=c.eta,
        store=None if exact else c.store,
        settings=c.settings,
        progress=the.watch(tell),
        ranks=the.share.together,
    )
    return _save(the, result) if the.share.leads else result


def featurize(the: Run, tell: Tell = lambda progress: None) -> dict[str, tuple[str, ...]]:
    """Add the features that the store lacks, and return the ids of each side. tell: called after every batch."""
    c = the.config
    if c.settings.backend == "exact":
        raise ValueError("backend 'exact' keeps no features; use `sdi run`, or another backend")
    verbs = backend_named(c.settings.backend)
    job = Job(verbs, the.model, the.script.loss, c.loop, the.settings, the.watch(tell), the.share)
    sides = {name: Side(name, loader) for name, loader in the.loaders.items()}
    stores = make_stores(c.store, job, the.points, sides)
    ids = fill(stores, job, the.points, sides)
    if the.share.leads:
        the.save()
        save_record(c.store, c.settings, the.points, ids, c.result, scored=False)
    return ids


def score(the: Run) -> Result:
    """Score the store's features and save the result. The script's data is read for its ids; no model is built."""
    c = the.config
    if c.settings.backend == "exact":
        raise ValueError("backend 'exact' keeps no features to score; use `sdi run`")
    stores = open_stores(the, the.script.loss)
    ids = the.ids()
    for store in stores:
        check_filled(store, the.points, ids)
    info = run_info(the.points, the.settings, c.loop)
    names = (ids["train"], ids["query"], c.settings.mode, info, c.settings.stderr, the.share)
    results = [score_store(store, the.points, *names) for store in stores]
    result = results[0] if len(results) == 1 else average(results)
    return _save(the, result) if the.share.leads else result


def check_filled(store: Store, points: Sequence[Checkpoint], ids: Mapping[str, Sequence[str]]) -> None:
    """Refuse a store that lacks some of these examples, by side, at some checkpoint."""
    for point in points:
        for side, names in ids.items():
            stored = store.rows(point.key, side)
            lacking = [i for i in names if i not in stored]
            if lacking:
                raise StoreError(
                    f"store {store.path} lacks {len(lacking)} of {len(names)} {side} examples at checkpoint "
                    f"{point.path.name}, {lacking[0]!r} among them; run `sdi featurize` first"
                )


def open_stores(the: Run, loss: Any = None) -> list[Store]:
    """Open the run's stores; refused if they were made with other settings than the config's."""
    stores = []
    for seed in sketch_seeds(the.config.settings):
        place = the.place(seed)
        if not (place / "manifest.json").is_file():
            raise StoreError(f"{place} holds no features yet; run `sdi featurize` or `sdi run` first")
        store = Store(place)
        old = store.manifest["config"]
        new = {**the.made_with(None, loss), "model": old.get("model")}
        new["loss"] = old.get("loss") if loss is None and the.settings.loss_id is None else new["loss"]
        sketch = the.draw({b.name: b.shape for b in store.blocks}, seed)
        found = {"config": old, "sketch": store.sketch.label}
        different = list(differences(found, {"config": new, "sketch": sketch.label}))
        if different:
            lines = "\n  ".join(different)
            raise StoreError(f"store {place} was made with other settings; use them, or a new folder:\n  {lines}")
        stores.append(store)
    return stores


def _save(the: Run, result: Result) -> Result:
    the.config.store.mkdir(parents=True, exist_ok=True)
    the.config.result.parent.mkdir(parents=True, exist_ok=True)
    the.save()
    result.save(the.config.result)
    ids = {side: result.labels[side] for side in ("train", "query")}
    save_record(the.config.store, the.config.settings, the.points, ids, the.config.result)
    return result
