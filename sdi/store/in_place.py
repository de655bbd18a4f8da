"""InPlace: whether shard k of a store holds group k of a loader, as the parts of an array job make them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from sdi.errors import StoreError
from sdi.store.store import Store


class InPlace:
    """Refuses a side of a store at a checkpoint that was filled in other groups than the loader has now."""

    def __init__(self, store: Store, checkpoint: str, side: str) -> None:
        self.store, self.place = store, (checkpoint, side)
        self.rows = store.rows(checkpoint, side)
        self.sizes = Counter(row.shard for row in self.rows.values())

    def check(self, number: int, ids: Sequence[str]) -> None:
        """Refuse examples of group `number` that are stored elsewhere, or are missing in the shard of that number."""
        shard = self.store.shard_path(*self.place, number)
        expected = shard if shard in self.sizes else None
        for i in ids:
            found = self.rows[i].shard if i in self.rows else None
            if found != expected:
                raise _refusal(shard, f"example {i!r} is in {found.name}" if found else f"example {i!r} is not there")

    def end(self, number: int, size: int) -> None:
        """Refuse a shard that holds more than the `size` examples of its group."""
        shard = self.store.shard_path(*self.place, number)
        if self.sizes.get(shard, size) != size:
            raise _refusal(shard, f"it has {self.sizes[shard]} examples, not {size}")


def _refusal(shard: Path, found: str) -> StoreError:
    return StoreError(
        f"{shard} does not hold what a part of an array job would put there ({found}): the store was filled with other "
        "examples, in another order, or with another shard=; fill it without a part"
    )
