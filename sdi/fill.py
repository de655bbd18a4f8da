"""fill: checkpoints x loaders -> a store with the features of every example. What is there is not made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from sdi.backends import Backend
from sdi.batches import count_examples, read_batches, take_examples
from sdi.checkpoints import Checkpoint
from sdi.errors import StoreError
from sdi.features import Features
from sdi.loop import Loop
from sdi.store import Row, Store


@dataclass(frozen=True)
class Progress:
    """What a long run says of itself after every batch."""

    checkpoint: int  # from 1
    checkpoints: int
    side: str
    done: int  # examples of this side at this checkpoint, those reused among them
    reused: int


@dataclass
class Job:
    """Everything that does not change from batch to batch."""

    backend: Backend
    model: Any
    loss: Callable[[Any, Any], Any]
    loop: Loop
    options: Mapping[str, Any]  # audit, memory, budget
    shard: int = 256  # examples per file: what a killed run may lose
    progress: Callable[[Progress], None] = lambda progress: None


def fill(
    stores: Store | Sequence[Store],
    job: Job,
    checkpoints: Sequence[Checkpoint],
    loaders: Mapping[str, Iterable[Any]],
    steps: Mapping[str, bool],
) -> dict[str, tuple[str, ...]]:
    """Make the features that the stores lack, and return the ids of each side in the order of its loader.

    Several stores, of one model with several sketches, are filled checkpoint by checkpoint, each loaded once.
    """
    stores = [stores] if isinstance(stores, Store) else stores
    ids: dict[str, tuple[str, ...]] = {}
    with ExitStack() as stack:
        for store in stores:
            stack.enter_context(store.writing())
        stack.enter_context(job.backend.weights_kept(job.model))
        work = [(store, side, _featurizer(job, store, steps[side])) for store in stores for side in loaders]
        for k, checkpoint in enumerate(checkpoints):
            weights = _Weights(job, checkpoint)
            for store, side, make in work:
                place = (k + 1, len(checkpoints))
                seen = _fill_side(store, job, checkpoint, side, loaders[side], make, weights, place)
                check_same_examples(side, ids.setdefault(side, seen), seen)
    return ids


def check_same_examples(side: str, before: Sequence[str], now: Sequence[str]) -> None:
    """Refuse a loader that gives other examples at another checkpoint."""
    odd = sorted(set(before) ^ set(now))
    if odd:
        raise ValueError(f"{side} must give the same examples at every checkpoint; {odd[0]!r} is only at some of them")


def _featurizer(job: Job, store: Store, steps: bool) -> Any:
    return job.backend.Featurizer(job.model, job.loss, loop=job.loop, sketch=store.sketch, steps=steps, **job.options)


class _Weights:
    """Loads a checkpoint the first time that an example needs it, and never twice."""

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
    side: str,
    loader: Iterable[Any],
    make: Any,
    weights: _Weights,
    place: tuple[int, int],
) -> tuple[str, ...]:
    stored = store.rows(checkpoint.key, side)
    seen: list[str] = []
    waiting: list[tuple[Features, list[str]]] = []
    reused = 0

    def flush() -> None:
        if waiting:
            features = Features.concatenate([part for part, _ in waiting])
            store.append(checkpoint.key, side, features, [c for _, contents in waiting for c in contents])
            waiting.clear()

    for batch, ids, contents in read_batches(loader, side):
        missing = [k for k, i in enumerate(ids) if not _is_stored(stored, i, contents[k], side)]
        if missing:
            make.model = weights.load()
            part = batch if len(missing) == len(ids) else take_examples(batch, missing, count_examples(batch))
            waiting.append((make(part, tuple(ids[k] for k in missing)), [contents[k] for k in missing]))
            if sum(len(contents) for _, contents in waiting) >= job.shard:
                flush()
        seen += ids
        reused += len(ids) - len(missing)
        job.progress(Progress(*place, side, len(seen), reused))
    flush()
    return tuple(seen)


def _is_stored(stored: Mapping[str, Row], i: str, content: str, side: str) -> bool:
    if i not in stored:
        return False
    if stored[i].content != content:
        raise StoreError(f"{side} example {i!r} has other content than when it was stored; give it another id")
    return True
