"""Several processes that fill the store of a small world: parts of an array job, and forked ranks with gloo."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch.distributed as dist
from attribution_cases import QUERY, TRAIN, World
from safetensors.numpy import save_file

from sdi import Result, Settings, backend, find_checkpoints
from sdi.fast import token_cross_entropy
from sdi.run.attribute import make_stores
from sdi.run.fill import Job, Side, fill
from sdi.store.share import Share

SHARD = 4  # of 7 and 3 examples in batches of 3: groups of 6, 1 and 3 at each of two checkpoints
ENDED, REFUSED, LEFT = 0, 3, 4  # exit codes of ranks: done, ValueError, ConnectionError


def fill_part(world: World, share: Share, shard: int = SHARD, train: Any = TRAIN, query: Any = QUERY) -> None:
    """Fill the world's store as one of several processes; with the settings of `World.attribute`."""
    settings = Settings(m=32, spread=False, dtype="float64", audit="off", shard=shard)
    job = Job(backend("fast"), world.model, token_cross_entropy, world.loop, settings, share=share)
    points = find_checkpoints(world.folder / "ckpt/*.safetensors")
    sides = {"train": Side("train", train), "query": Side("query", query)}
    fill(make_stores(world.store, job, points, sides), job, points, sides)


def nothing() -> None:
    pass


def in_children(bodies: Sequence[Callable[[], Any]], seconds: int = 120) -> list[int]:
    """Run each body in a forked process; their exit codes, or minus the signal that ended one."""
    children = []
    for body in bodies:
        child = os.fork()
        if child == 0:
            code = 70
            try:
                signal.alarm(seconds)
                body()
                code = ENDED
            except ConnectionError:
                code = LEFT
            except ValueError as error:
                print(error)
                code = REFUSED
            finally:
                os._exit(code)
        children.append(child)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def run_ranks(
    world: World,
    n: int,
    sabotage: Mapping[int, Callable[[], None]] | None = None,
    options: Callable[[int], dict[str, Any]] = lambda rank: {},
) -> list[int]:
    """`sdi.attribute` in a job of n ranks. sabotage: called before, by rank. options: to change, by rank.

    Each rank that ends saves its scores to rank-0.safetensors and so on.
    """
    meeting = world.folder / "meeting"
    meeting.unlink(missing_ok=True)

    def body(rank: int) -> None:
        dist.init_process_group(
            "gloo", init_method=f"file://{meeting}", rank=rank, world_size=n, timeout=timedelta(seconds=60)
        )
        (sabotage or {}).get(rank, nothing)()
        result = world.attribute(**{"store": world.store, "shard": SHARD, **options(rank)})
        save_scores(result, world.folder / f"rank-{rank}.safetensors")

    return in_children([lambda rank=rank: body(rank) for rank in range(n)])  # type: ignore[misc]


def save_scores(result: Result, path: Path) -> None:
    save_file({"sdi": result.sdi_values, "stderr": result.arrays["stderr"]}, path)
