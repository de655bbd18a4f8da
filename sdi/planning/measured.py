"""Measured: all that a plan knows: what batches, files and weights cost, and what a process held."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sdi.inputs.settings import Settings
from sdi.planning.cost import Cost
from sdi.planning.timed_side import TimedSide
from sdi.planning.timed_store import TimedStore


@dataclass(frozen=True)
class Measured:
    """What was timed and counted at the first checkpoint."""

    sides: dict[str, TimedSide]
    store: TimedStore
    finding: Cost  # all checkpoints, and their sha256
    loading: Cost  # one of them
    pilot: Cost | None  # of `spread`, at all checkpoints
    held_bytes: int | None  # by the process, the model among it, before the first batch
    pass_bytes: int | None  # more at the highest, in batches of both sides
    keys: tuple[str, ...]  # of the checkpoints
    manifest_bytes: int  # of all stores
    settings: Settings
    numbers: int  # kept for an example and step
    timed_on: str

    def to_dict(self) -> dict[str, Any]:
        """What was timed, in seconds, as JSON values."""
        out: dict[str, Any] = {
            name: {
                "batch": s.batch, "steps": s.steps, "batches": s.batches, "first": s.first._asdict(),
                "later": s.later._asdict(), "alone": s.alone._asdict(), "read": s.read._asdict(),
                "write": self.store.write[name]._asdict(), "value_bytes": s.value_bytes,
            }
            for name, s in self.sides.items()
        }  # fmt: skip
        out |= {"finding": self.finding._asdict(), "loading": self.loading._asdict()}
        out |= {"held_bytes": self.held_bytes, "pass_bytes": self.pass_bytes}
        return out
