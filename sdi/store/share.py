"""Share: which part of the work falls to this process, where several processes fill one store.

Examples are made in groups, one for each shard, and dealt out in turn: group g falls to process g % n. The groups are
those of a process that works alone, so the finished store has the same files, whoever made which.

Processes that can wait for one another (`together`: the ranks of a torch.distributed job) agree at the start on what is
stored, and deal out what is missing. Others (the parts of an array job) start when they will, so they deal out all
examples, stored or not, and shard k holds group k.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar, TypeVar

T = TypeVar("T")
TORCHRUN = "TORCHELASTIC_RUN_ID"  # in the environment of the processes that torchrun starts


@dataclass(frozen=True)
class Share:
    """Process k, from 0, of n that fill one store; by default the only one."""

    k: int = 0
    n: int = 1
    together: ClassVar[bool] = False  # whether the processes can wait for one another

    @classmethod
    def parse(cls, text: str) -> Share:
        """A part of an array job, from 1: "3/16".

        >>> Share.parse("3/16")
        Share(k=2, n=16)
        """
        found = re.fullmatch(r"(\d{1,9})/(\d{1,9})", text.strip())
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            raise ValueError(f"part must be k/n, the k-th of n from 1 to n, such as 3/16, got {text!r}")
        return cls(int(found[1]) - 1, int(found[2]))

    def __str__(self) -> str:
        return f"part {self.k + 1} of {self.n}"

    @property
    def apart(self) -> bool:
        """Whether there are other processes that cannot be waited for."""
        return self.n > 1 and not self.together

    @property
    def leads(self) -> bool:
        """Whether this process writes what is written once, such as the result."""
        return self.k == 0 and not self.apart

    def mine(self, group: int) -> bool:
        """Whether this process makes a group of examples."""
        return group % self.n == self.k

    def first(self, value: T) -> T:
        """What process 0 has, in all of those that are together."""
        return value

    def gather(self, value: T) -> list[T]:
        """What every process has of those that are together, in their order."""
        return [value]

    def agree(self, name: str, digest: str) -> None:
        """Refuse examples that are not the same in all processes that are together. name: "train" or "query"."""
