"""`sdi.plan`: the bytes of a store that is not there yet are exactly those of the finished one; terms add up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from attribution_cases import World, make_batches, world

import sdi
from sdi.planning.store_bytes import all_id_bytes, side_bytes, split_shards

__all__ = ["world"]

SIZES = (7, 31, 64)


def options(world: World, n: int, **changes):
    return world.options(train=make_batches(n, "t", seed=1), shard=10, **changes)


def disk(folder: Path) -> int:
    files = [*folder.rglob("shard-*"), *folder.rglob("manifest.json")]
    return sum(file.stat().st_size for file in files)


def plan(world: World, **changes) -> sdi.Plan:
    return sdi.plan(world.model, **{**options(world, 7), "examples": SIZES, **changes})


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [{}, {"dtype": "float16", "mode": "matrix", "repeats": 2}, {"spread": True, "audit": "first"}],
    ids=["plain", "float16, two sketches", "spread"],
)
def test_the_disk_of_three_sizes_is_that_of_the_finished_stores(world, changes):
    checkpoints = world.paths[:1] if "spread" in changes else world.paths
    found = plan(world, checkpoints=checkpoints, **changes)
    assert found.exact
    for n, size in zip(SIZES, found.sizes, strict=True):
        store = world.folder / f"store-{n}"
        sdi.attribute(world.model, **options(world, n, checkpoints=checkpoints, store=store, **changes))
        assert size.disk_bytes == disk(store)
        assert size.network_bytes == 2 * disk(store)


def test_it_is_exact_past_99_999_shards_too():
    """The numbers of shards then have six digits."""
    arrays = {}
    counts = [side_bytes(arrays, split_shards(n, 1, 1), "p/train", 0, 1) for n in (99_999, 100_000, 100_001)]
    assert counts[2] - counts[1] == counts[1] - counts[0] + 1


def test_ids_go_on_as_they_begin():
    assert all_id_bytes(["t-0", "t-1"], 101) == (sum(len(f'"t-{k}"') for k in range(101)), None)
    assert all_id_bytes(["8", "9"], 93) == (sum(len(f'"{k}"') for k in range(8, 101)), None)
    assert all_id_bytes(["é7", "é8"], 4) == (sum(len(json.dumps(f"é{k}")) for k in range(7, 11)), None)
    assert all_id_bytes(["img-0001", "img-0002"], 9) == (90, None)
    assert all_id_bytes(["b7e23e", "9c01aa"], 10) == (80, None)
    length, guess = all_id_bytes(["one", "three"], 10)
    assert (length, guess is None) == (60, False)
