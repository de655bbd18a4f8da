"""What the batches of one side cost: the first, with its audit; a later one; reading one; one example alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from sdi.inputs.batches import Examples, take_examples
from sdi.planning.cost import Cost, mean, timed
from sdi.run.fill import Side
from sdi.store.features import Features
from sdi.store.recheck_row import alone

LEAST, MOST, ENOUGH = 3, 20, 1.0  # later batches: at least, at most, and seconds after which there are enough
ALONE = 0.002  # of the examples of later batches are run alone under audit="first", at most one a batch


@dataclass(frozen=True)
class TimedSide:
    """The batches of one side that were timed, at the first checkpoint."""

    side: str  # "train" or "query"
    batch: int  # examples
    steps: int  # the most that an example took
    first: Cost  # the first batch, with its audit and what libraries do on first use
    later: Cost  # a later one, as `batches` of them cost on average
    batches: int
    alone: Cost  # an example that the audit runs alone
    read: Cost  # a batch from the loader, with the digests of its content
    audit: str
    ids: tuple[str, ...]  # of all that were read
    features: Features  # of the first batch

    @property
    def each(self) -> Cost:
        """An example's features, in a later batch, with its share of examples that are run alone."""
        share = ALONE if self.audit == "first" and 1 < self.batch < 1 / ALONE else 0.0  # larger ones: in every batch
        return Cost(*(b / self.batch + share * a for b, a in zip(self.later, self.alone, strict=True)))

    @property
    def value_bytes(self) -> int:
        """Bytes of an example's features in memory."""
        return self.features.values.nbytes // len(self.features.ids)


def time_side(side: Side, make: Any, audit: str, ready: Callable[[Any], Any] = lambda batch: batch) -> TimedSide:
    """Time batches of a loader. make: a backend's Featurizer. ready: what is done to a batch before, such as a move."""
    source = side.read()
    first, reading = timed(partial(next, source))
    batch, ids = ready(first.batch), list(first.ids)
    features, cost = timed(partial(make, batch, first.ids))
    reads: list[Cost] = []
    later: list[Cost] = []
    here = batch, first.ids
    more: Examples | None = first
    while len(later) < LEAST or (len(later) < MOST and sum(c.wall for c in later) < ENOUGH):
        if more is not None:
            more, reading_more = timed(partial(next, source, None))
            if more is not None:
                ids += more.ids
                if len(more.ids) == len(first.ids):
                    reads.append(reading_more)
                    here = ready(more.batch), more.ids
        later.append(timed(partial(make, *here))[1])  # again, where there is no other of this size
    n, single = len(first.ids), Cost()
    if n > 1 and audit == "first":
        single = timed(lambda: alone(make)(take_examples(batch, [0], n), first.ids[:1]))[1]
    return TimedSide(
        side.name, n, int(features.tau.max()), cost, mean(later), len(later), single, mean(reads or [reading]), audit,
        tuple(ids), features,
    )  # fmt: skip
