"""fill: compute the features of every example at every checkpoint and store them; what is stored is not made again.

Examples that are missing are made in groups, a shard each: consecutive batches, until there are `shard` examples. Where
several processes fill a store, all read all examples, and each makes the groups that fall to it (`sdi/store/share.py`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from sdi.backends import Backend
from sdi.errors import AuditError, StoreError
from sdi.inputs.batches import Examples, count_examples, in_order, read_batches, shapes_of, take_examples
from sdi.inputs.checkpoints import Checkpoint
from sdi.inputs.settings import Settings
from sdi.loop import Loop
from sdi.store.features import Features
from sdi.store.in_place import InPlace
from sdi.store.recheck_row import alone, check_row
from sdi.store.share import Share
from sdi.store.store import Row, Store


@dataclass(frozen=True)
class Progress:
    """How far a run is; passed to `progress` after every batch."""

    checkpoint: int  # from 1
    checkpoints: int
    side: str
    done: int  # examples of this side at this checkpoint, those reused among them
    reused: int
    others: int = 0  # left to other processes that fill the same store

    @property
    def made(self) -> int:
        return self.done - self.reused - self.others


@dataclass
class Job:
    """What a run needs for every batch: backend, model, loss, loop, settings, whom to tell of progress; and which of
    several processes this is, that fill the store."""

    backend: Backend
    model: Any
    loss: Callable[[Any, Any], Any]
    loop: Loop
    settings: Settings
    progress: Callable[[Progress], None] = lambda progress: None
    share: Share = field(default_factory=Share)
    groups: int = 0  # dealt out so far


def fill(
    stores: Store | Sequence[Store],
    job: Job,
    checkpoints: Sequence[Checkpoint],
    sides: Mapping[str, Side],
) -> dict[str, tuple[str, ...]]:
    """Make the features that the stores lack, and return the ids of each side in the order of a result.

    Several stores, of one model with several sketches, are filled checkpoint by checkpoint, each loaded once.
    """
    stores = [stores] if isinstance(stores, Store) else stores
    share = job.share
    sides["query"].look()  # whose turn comes after the whole training side
    share.agree("query", sides["query"].digest)
    with ExitStack() as stack:
        for store in stores:
            stack.enter_context(store.writing(share))
            if share.together:
                store.agree([(checkpoint.key, side) for checkpoint in checkpoints for side in sides])
        stack.enter_context(job.backend.weights_kept(job.model))
        work = [
            (store, side, _featurizer(job, store, job.settings.keeps_steps[side.name]))
            for store in stores
            for side in sides.values()
        ]
        for k, checkpoint in enumerate(checkpoints):
            weights = _Weights(job, checkpoint)
            for store, side, make in work:
                place = (k + 1, len(checkpoints))
                _fill_side(store, job, checkpoint, side, make, weights, place)
        for side in sides.values():
            share.agree(side.name, side.digest)  # and all have written what was theirs
    return {name: side.ids for name, side in sides.items()}


@dataclass
class Side:
    """The examples of a loader, which must be the same whenever it is read."""

    name: str
    loader: Iterable[Any]
    contents: dict[str, tuple[str, str]] | None = None  # of each id, with its shapes, in the order of the first pass
    looked: bool = False
    probed: bool = False  # whether a stored row was compared with the model's
    read_so_far: Any = field(default_factory=hashlib.sha256)  # all ids and contents, batch by batch

    @property
    def ids(self) -> tuple[str, ...]:
        return in_order(self.contents or ())

    @property
    def digest(self) -> str:
        """Of all that was read so far: the same wherever the same examples were read in the same batches."""
        return str(self.read_so_far.hexdigest())

    def look(self) -> None:
        """Read the loader once for its ids alone, so that errors in them are raised before any work is done.

        Does nothing for an iterator, which can be read only once. Keeps nothing: examples may differ in the next pass.
        """
        if not self.looked and not isinstance(self.loader, Iterator):
            for _ in self.read():
                pass
            self.contents, self.looked = None, True

    def read(self) -> Iterator[Examples]:
        """Read the loader once. Refuses other ids than in the first pass, and an id whose content has changed.

        Content is compared only between equal shapes: the same example may be padded to another length.
        """
        now: dict[str, tuple[str, str]] = {}
        for examples in read_batches(self.loader, self.name):
            shapes = shapes_of(examples.batch)
            self.read_so_far.update(repr((examples.ids, examples.contents)).encode())
            for i, content in zip(examples.ids, examples.contents, strict=True):
                before = (self.contents or {}).get(i, (content, shapes))
                if before[1] == shapes and before[0] != content:
                    raise ValueError(
                        f"{self.name} example {i!r} has other content when it is read again; ids must name examples, "
                        "not places in a shuffled loader"
                    )
                now[i] = content, shapes
            yield examples
        odd = sorted(set(now) ^ set(now if self.contents is None else self.contents))
        if odd:
            raise ValueError(
                f"{self.name} must give the same examples whenever it is read; {odd[0]!r} is there only at times"
            )
        self.contents = self.contents or now


@contextmanager
def told_where(place: str) -> Iterator[None]:
    """Add the place (the checkpoint) to the message of errors that the library raises."""
    try:
        yield
    except (ValueError, AuditError) as error:
        if len(error.args) == 1:  # others make their message from several
            error.args = (f"{error} ({place})",)
        raise


def _featurizer(job: Job, store: Store, steps: bool) -> Any:
    return job.backend.Featurizer(
        job.model, job.loss, loop=job.loop, sketch=store.sketch, steps=steps, **job.settings.pass_options
    )


class _Weights:
    """Loads a checkpoint into the model when the first example needs it, and only once."""

    def __init__(self, job: Job, checkpoint: Checkpoint) -> None:
        self.job, self.checkpoint, self.model = job, checkpoint, None

    def load(self) -> Any:
        if self.model is None:
            self.model = self.checkpoint.load_into(self.job.model, self.job.backend)
        return self.model


def _fill_side(
    store: Store,
    job: Job,
    checkpoint: Checkpoint,
    side: Side,
    make: Any,
    weights: _Weights,
    place: tuple[int, int],
) -> None:
    share, key = job.share, checkpoint.key
    stored = store.rows(key, side.name)
    in_place = InPlace(store, key, side.name) if share.apart else None
    numbers = count() if share.apart else store.free_numbers(key, side.name)
    number = next(numbers)
    waiting: list[tuple[Features, list[str]]] = []
    done = reused = others = size = 0

    def made(batch: Any, ids: Sequence[str], rows: list[int], how: Callable[..., Features]) -> Features:
        make.model = weights.load()
        part = batch if len(rows) == len(ids) else take_examples(batch, rows, count_examples(batch))
        with told_where(f"{side.name}, checkpoint {checkpoint.path}"):
            return how(part, tuple(ids[k] for k in rows))

    def end_group() -> None:
        nonlocal number, size
        if in_place:
            in_place.end(number, size)
        if waiting:
            features = Features.concatenate([part for part, _ in waiting])
            store.append(key, side.name, features, [c for _, contents in waiting for c in contents], number)
            waiting.clear()
        job.groups += 1
        number, size = next(numbers), 0

    for k, (batch, ids, contents) in enumerate(side.read()):
        if k == 0 and side.contents is None and not side.looked:
            share.agree(side.name, side.digest)  # before anything is made
        missing = [k for k, i in enumerate(ids) if not _is_stored(stored, i, contents[k], side.name)]
        if len(missing) < len(ids) and not side.probed and job.settings.audit != "off":
            side.probed = True
            known = next(k for k in range(len(ids)) if k not in missing)
            check_row(store, checkpoint, side.name, made(batch, ids, [known], alone(make)), make)
        if in_place:
            in_place.check(number, ids)
        mine = share.mine(job.groups)
        if missing and mine:
            waiting.append((made(batch, ids, missing, make), [contents[k] for k in missing]))
        size += len(ids) if share.apart else len(missing)
        done += len(ids)
        reused += len(ids) - len(missing)
        others += 0 if mine else len(missing)
        if size >= job.settings.shard:
            end_group()
        job.progress(Progress(*place, side.name, done, reused, others))
    if size:
        end_group()


def _is_stored(stored: Mapping[str, Row], i: str, content: str, side: str) -> bool:
    if i not in stored:
        return False
    if stored[i].content != content:
        raise StoreError(
            f"{side} example {i!r} has other content than when it was stored; give it another id (or, if it is only "
            "padded to another length, pad all batches to one)"
        )
    return True
