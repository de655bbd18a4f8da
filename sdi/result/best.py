"""Best: the ids with the largest keys, block by block, without a look at the ids of all other rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from sdi.inputs.batches import natural

Array = np.ndarray


class Best:
    """The k largest keys seen so far for each target, and whose they are; among equals, the first ids in natural order.

    A key of -inf is of no rank. Ids are sorted only where keys are equal: sorting a million takes seconds.
    """

    def __init__(self, targets: int, k: int) -> None:
        self.k = k
        self.keys: list[Array] = [np.zeros(0)] * targets
        self.ids: list[list[str]] = [[] for _ in range(targets)]

    def merge(self, keys: Float[Array, "b T"], ids: Sequence[str]) -> None:
        """Take in a block: the keys of each id for each target."""
        for target, row in enumerate(np.ascontiguousarray(keys.T)):
            known = self.keys[target]
            least = known.min() if len(known) == self.k else -np.inf
            some = np.flatnonzero((row >= least) & (row > -np.inf))
            some = some[_largest(row[some], self.k)]
            self._take(target, row[some], [ids[i] for i in some])

    def join(self, other: Best) -> None:
        """Take in what another has seen."""
        for target, (keys, ids) in enumerate(zip(other.keys, other.ids, strict=True)):
            self._take(target, keys, ids)

    def ranked(self) -> list[list[str]]:
        """For each target its ids, best first."""
        return [
            [self.ids[target][i] for i in sorted(range(len(keys)), key=lambda i: (-keys[i], *_place(ids[i])))]
            for target, (keys, ids) in enumerate(zip(self.keys, self.ids, strict=True))
        ]

    def _take(self, target: int, keys: Float[Array, "c"], ids: Sequence[str]) -> None:
        keys, ids = np.concatenate([self.keys[target], keys]), [*self.ids[target], *ids]
        keep = _largest(keys, self.k)
        if len(keep) > self.k:
            least = keys[keep].min()
            above, equal = keep[keys[keep] > least], keep[keys[keep] == least]
            first = sorted(equal, key=lambda i: _place(ids[i]))[: self.k - len(above)]
            keep = np.array([*above, *first], dtype=np.int64)
        self.keys[target], self.ids[target] = keys[keep], [ids[i] for i in keep]


def _largest(keys: Float[Array, "c"], k: int) -> Int[Array, "d"]:
    """The places of the k largest, and of those equal to the least of them."""
    if len(keys) <= k:
        return np.arange(len(keys))
    return np.flatnonzero(keys >= np.partition(keys, len(keys) - k)[len(keys) - k])


def _place(i: str) -> tuple[list[object], str]:
    return natural(i), i
