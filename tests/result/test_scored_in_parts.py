"""Several processes score a store, and rank from it: each its own shards, and every one gets what one process gets."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from attribution_cases import World, counting, filled, world

import sdi.result.stream_top as streaming
from sdi import Result, Store, find_checkpoints
from sdi.result.best import Best
from sdi.result.score_store import score
from sdi.store.share import Share

__all__ = ["filled", "world"]
TRAIN_IDS, QUERY_IDS = [f"t-{k}" for k in (5, 0, 6, 1, 2, 3)], ["q-1", "q-0", "q-2"]  # in no order of shards


@dataclass(frozen=True)
class Thread(Share):
    """Threads that stand for ranks."""

    board: Any = None
    barrier: Any = None
    together: ClassVar[bool] = True

    def gather(self, value: Any) -> list[Any]:
        self.board[self.k] = value
        self.barrier.wait()
        found = list(self.board)
        self.barrier.wait()
        return found

    def first(self, value: Any) -> Any:
        return self.gather(value)[0]


def on_threads(n: int, body: Callable[[Share], Any]) -> list[Any]:
    board, barrier = [None] * n, threading.Barrier(n, timeout=60)
    with ThreadPoolExecutor(n) as pool:
        return list(pool.map(lambda k: body(Thread(k, n, board, barrier)), range(n)))


def same(x: Result, y: Result) -> bool:
    arrays = all(x.arrays[name].tobytes() == y.arrays[name].tobytes() for name in y.arrays)
    return arrays and (x.mode, x.labels, x.info, set(x.arrays)) == (y.mode, y.labels, y.info, set(y.arrays))


def opened_by() -> Any:
    """The training shards that each thread opens."""
    return counting(Store, "open_shard", lambda store, shard: (threading.get_ident(), shard))


def each_opens_its_own(opened: list[tuple[int, Path]], n: int) -> None:
    found = defaultdict(set)
    for thread, shard in opened:
        if shard.parent.name == "train":
            found[shard].add(thread)
    assert [len(threads) for threads in found.values()] == [1] * 6  # three shards at two checkpoints
    assert len(set.union(*found.values())) == min(n, 3)


@pytest.mark.parametrize("mode", ["query", "train", "matrix", "tracin"])
@pytest.mark.parametrize("n", [2, 3, 5])
def test_scores_of_several_processes_are_those_of_one_to_the_last_bit(world: World, mode: str, n: int) -> None:
    world.attribute(store=world.store, shard=3, mode=mode)
    points = find_checkpoints(world.folder / "ckpt/*.safetensors")

    def scored(share: Share) -> Result:
        return score(Store(world.store), points, TRAIN_IDS, QUERY_IDS, mode, {"notes": []}, share=share)

    alone = scored(Share())
    with opened_by() as opened:
        together = on_threads(n, scored)
    assert all(same(result, alone) for result in together)
    each_opens_its_own(opened, n)


@pytest.mark.parametrize("by", ["signed", "absolute", "late"])
@pytest.mark.parametrize("n", [2, 5])
def test_rankings_streamed_by_several_processes_are_those_of_one(
    filled: World, by: str, n: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = find_checkpoints(filled.folder / "ckpt/*.safetensors")
    here = threading.local()
    monkeypatch.setattr(streaming, "find_share", lambda: here.share)

    def ranked(share: Share) -> Any:
        here.share = share
        more = {"by": by, "late": 0.1, "each_step": by == "absolute", "ranks": True}
        return streaming.stream_top(Store(filled.store), points, QUERY_IDS, 3, **more)

    alone = ranked(Share())
    assert on_threads(n, ranked) == [alone] * n
    monkeypatch.setattr(
        streaming.Question, "answer", lambda *given: given[3]
    )  # the ids; only the first process opens more
    alone = ranked(Share())
    with opened_by() as opened:
        assert on_threads(n, ranked) == [alone] * n
    each_opens_its_own(opened, n)


def test_equal_keys_are_ranked_by_id_whoever_has_seen_them() -> None:
    keys, ids = np.array([[2.0], [1.0], [2.0], [2.0]]), ["t-10", "t-0", "t-1", "t-2"]
    whole = Best(1, 2)
    whole.merge(keys, ids)
    parts = [Best(1, 2), Best(1, 2)]
    for part, rows in zip(parts, ([0, 1], [2, 3]), strict=True):
        part.merge(keys[rows], [ids[i] for i in rows])
    parts[0].join(parts[1])
    assert parts[0].ranked() == whole.ranked() == [["t-1", "t-2"]]
