"""Ranks: the processes of a torch.distributed job, which fill one store together.

They talk through a group of their own (gloo, on the CPU), so it does not matter what the job's own group is for. A
process that ends closes its connections, so the others stop waiting for it at once, without torchrun, too.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar, TypeVar

import torch.distributed as dist

from sdi.store.share import TORCHRUN, Share

T = TypeVar("T")
MEET = timedelta(minutes=10)  # how much later than the first the last rank may begin
WAIT = timedelta(days=1)  # for one that lives and does not come; one that has ended is seen at once
KEPT = "what is stored is kept: run again, with any number of ranks"

_joined: dict[Any, Ranks] = {}  # by the job's own group


@dataclass(frozen=True)
class Ranks(Share):
    """Rank k of n, with the group through which they talk."""

    group: Any = None
    together: ClassVar[bool] = True

    def __str__(self) -> str:
        return f"rank {self.k} of {self.n}"

    def first(self, value: T) -> T:
        """What rank 0 has."""
        box = [value if self.k == 0 else None]
        with self._waiting():
            dist.broadcast_object_list(box, src=0, group=self.group)
        return box[0]  # type: ignore[return-value]

    def gather(self, value: T) -> list[T]:
        """What every rank has, by rank."""
        found: list[Any] = [None] * self.n
        with self._waiting():
            dist.all_gather_object(found, value, group=self.group)
        return found

    def agree(self, name: str, digest: str) -> None:
        """Refuse a loader that gave other examples, or other batches, to some rank than to rank 0."""
        found = self.gather(digest)
        odd = [rank for rank, text in enumerate(found) if text != found[0]]
        if odd:
            raise ValueError(
                f"{name} gave other examples, or in other batches, to rank {odd[0]} than to rank 0; every rank must "
                "read all examples in one order: take away a DistributedSampler, and seed what shuffles"
            )

    def meet(self) -> None:
        """Wait until all ranks are here."""
        with self._waiting():
            dist.monitored_barrier(self.group, MEET)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        try:
            yield
        except RuntimeError as error:
            raise ConnectionError(
                f"{self} waited in vain for another, which has ended or hangs; {KEPT} ({error})"
            ) from None


def joined() -> Share:
    """The ranks of the job that this process belongs to; alone where torch.distributed is not initialised.

    All ranks must make this call. ConnectionError if some do not, within ten minutes.
    """
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return Share()
    job = dist.group.WORLD
    if job not in _joined:
        _joined.clear()
        place = dist.get_rank(), dist.get_world_size()
        try:
            dist.new_group(backend="gloo", timeout=MEET)  # does not wait longer than that for the others
            _joined[job] = Ranks(*place, dist.new_group(backend="gloo", timeout=WAIT))
        except RuntimeError as error:
            raise ConnectionError(
                f"rank {place[0]} of {place[1]} waited for the others in vain: every rank of a torch.distributed job "
                f"must make the same call, or one alone with ranks=False ({error})"
            ) from None
    _joined[job].meet()
    return _joined[job]


def _join_torchrun() -> None:
    """Join torchrun's job under keys of this attempt: by default its store keeps what the attempt before wrote,
    and gloo would look for processes that have ended."""
    torch_dist: Any = dist  # which does not list what it gives
    store, rank, n = next(iter(torch_dist.rendezvous("env://")))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    dist.init_process_group("gloo", store=torch_dist.PrefixStore(f"sdi-{attempt}", store), rank=rank, world_size=n)


@contextmanager
def torchrun_job() -> Iterator[Share]:
    """Join the job that torchrun started this process for, unless the process has joined one itself.

    Yields this process's share: alone where there is no job. An error is printed with its rank.
    """
    begins = not dist.is_initialized() and TORCHRUN in os.environ
    if begins:
        _join_torchrun()
    share = joined()
    try:
        yield share
    except Exception as error:
        if share.n > 1:
            text = "".join(traceback.format_exception(error))
            print("".join(f"[{share}] {line}" for line in text.splitlines(keepends=True)), file=sys.stderr, flush=True)
        raise
    if begins:
        _joined.clear()
        dist.destroy_process_group()
