"""`sdi.plan`: the bytes of a store that is not there yet are exactly those of the finished one; terms add up."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from attribution_cases import QUERY, TRAIN, World, counting, make_batches, world

import sdi
import sdi.planning.plan
from sdi.planning import timed_side, timed_store
from sdi.planning.cost import Cost
from sdi.planning.measured import Measured
from sdi.planning.predict import predict
from sdi.planning.store_bytes import all_id_bytes, side_bytes, split_shards
from sdi.planning.timed_side import TimedSide
from sdi.planning.timed_store import TimedStore

__all__ = ["world"]

SIZES = (7, 31, 64)


def options(world: World, n: int, **changes):
    return world.options(train=make_batches(n, "t", seed=1), shard=10, **changes)


@pytest.fixture(autouse=True)
def _few_rounds(monkeypatch):
    monkeypatch.setattr(timed_side, "ENOUGH", 0.0)
    monkeypatch.setattr(timed_store, "ROUNDS", 1)


def disk(folder: Path) -> int:
    files = [*folder.rglob("shard-*"), *folder.rglob("manifest.json")]
    return sum(file.stat().st_size for file in files)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "changes"),
    [(SIZES, {}), (SIZES[1:2], {"dtype": "float16", "mode": "matrix", "repeats": 2}), (SIZES[1:2], {"spread": True})],
    ids=["plain", "float16, two sketches", "spread"],
)
def test_the_disk_of_three_sizes_is_that_of_the_finished_stores(world, sizes, changes):
    before = sorted(world.folder.rglob("*"))
    found = sdi.plan(world.model, **options(world, 7, examples=sizes, store=world.store, **changes))
    assert sorted(world.folder.rglob("*")) == before  # a plan leaves nothing
    assert found.exact
    for n, size in zip(sizes, found.sizes, strict=True):
        store = world.folder / f"store-{n}"
        sdi.attribute(world.model, **options(world, n, store=store, **changes))
        assert size.disk_bytes == disk(store)
        assert size.network_bytes == 2 * disk(store)


def test_shards_with_numbers_of_six_digits_have_longer_sidecars():
    sizes = [side_bytes({}, split_shards(n, 1, 1), "p/train", 0, 1) for n in (99_999, 100_000, 100_001)]
    assert sizes[2] - sizes[1] == sizes[1] - sizes[0] + 1


def test_ids_go_on_as_they_begin_or_the_plan_says_that_it_guesses():
    assert all_id_bytes(["t-0", "t-1"], 101) == (sum(len(f'"t-{k}"') for k in range(101)), None)
    assert all_id_bytes(["8", "9"], 93) == (sum(len(f'"{k}"') for k in range(8, 101)), None)
    assert all_id_bytes(["é7", "é8"], 4) == (sum(len(json.dumps(f"é{k}")) for k in range(7, 11)), None)
    assert all_id_bytes(["img-0001", "img-0002"], 12) == (120, None)
    assert all_id_bytes(["b7e23e", "9c01aa"], 10) == (80, None)
    length, guess = all_id_bytes(["one", "three"], 10)
    assert (length, guess is None) == (60, False)


def measured(**changes) -> Measured:
    """What might have been measured: an example takes 3 s to make and 1 s to store, a query 5 s and 2 s."""
    ids = ("0", "1")
    features = sdi.Features(np.ones((2, 4), np.float32), np.ones(2, int), (sdi.Block("w", (4,), 0, 4),), "s")
    steps = sdi.Features(np.ones((2, 3, 4), np.float32), np.full(2, 3), features.blocks, "s")
    sides = {
        name: TimedSide(
            name, 2, int(f.tau[0]), Cost(50.0, 5.0), Cost(2 * each, each), 3, Cost(), Cost(0.2, 0.2), "off", ids, f
        )
        for name, f, each in (("train", features, 3.0), ("query", steps, 5.0))
    }
    store = TimedStore(
        {"train": Cost(1.0, 1.0), "query": Cost(2.0, 1.0)}, Cost(0.01, 0.01), Cost(0.5, 0.5), Cost(4.0), Cost(0.3, 0.2)
    )
    known = {"finding": Cost(7.0, 1.0), "loading": Cost(10.0, 1.0), "pilot": None, "keys": ("a", "b")}
    settings = sdi.Settings(m=4, shard=5)
    fixed = {"held_bytes": 10**6, "pass_bytes": 1000, "manifest_bytes": 77, "numbers": 4, "timed_on": "cpu"}
    return Measured(**{"sides": sides, "store": store, "settings": settings, **known, **fixed, **changes})


def test_time_is_that_of_the_busiest_process_and_reading_is_not_divided():
    alone, two = (predict(measured(), [60], 3, hosts, "cpu", True).sizes[0] for hosts in (1, 2))
    begin = 7 + 2 * 10 + (50 - 6) + (50 - 10)
    reading = 0.1 * (2 * 60 + 3 * 3)  # the queries once more, for their ids
    assert alone.seconds == pytest.approx(begin + reading + 2 * 60 * 4 + 2 * 3 * 7)
    # 2 checkpoints of 10 shards of 6 examples, and of 1 shard of 3 queries, dealt out to two
    assert two.seconds == pytest.approx(begin + reading + 60 * 4 + 6 * 7)
    odd = predict(measured(), [7], 3, 3, "cpu", True).sizes[0]  # 4 shards for 3: one of them makes two
    assert odd.seconds == pytest.approx(begin + 0.1 * (14 + 9) + 12 * 4 + 6 * 7)


def test_cpu_time_is_of_all_processes_and_memory_of_one():
    alone, two = (predict(measured(), [60], 3, hosts, "cpu", True).sizes[0] for hosts in (1, 2))
    each = 1 + 2 + (5 - 3) + 0 + 0.1 * (2 * 60 + 3 * 3)
    assert two.cpu_seconds - alone.cpu_seconds == pytest.approx(each)
    assert two.memory_bytes == alone.memory_bytes == 10**6 + (1000 + 3 * 48) + 60 * 1220  # 3 queries, not a whole shard
    many = predict(measured(), [60], 300, 1, "cpu", True).sizes[0]
    assert many.memory_bytes == 10**6 + 5 * 6 * 48 + 60 * 1220
    large = predict(measured(pass_bytes=10**5), [60], 3, 1, "cpu", True).sizes[0]
    assert large.memory_bytes == 10**6 + 10**5 + 3 * 48 + 60 * 1220


def test_ranking_passes_all_rows_by_at_each_checkpoint():
    size = predict(measured(), [60], 3, 1, "cpu", True).sizes[0]
    assert size.score_seconds == pytest.approx(4 + 2 * 60 * 0.01 + 3 * (0.3 + 2 * 0.5))


def test_of_a_device_that_is_not_here_no_time_is_guessed():
    plan = predict(measured(), [60], 3, 1, "cuda", False)
    size = plan.sizes[0]
    assert (size.seconds, size.cpu_seconds, size.memory_bytes, size.score_seconds) == (None,) * 4
    assert size.disk_bytes == predict(measured(), [60], 3, 1, "cpu", True).sizes[0].disk_bytes
    assert "unknown on cuda, which is not here; no guess is made from cpu" in str(plan)
    assert "run the plan on a machine that has cuda" in str(plan)


@pytest.mark.slow
def test_batches_are_timed_on_another_device_if_it_is_here_and_widths_measured_at_all_checkpoints(world, monkeypatch):
    """There is none: the CPU is taken for another."""
    module = sys.modules["sdi.planning.plan"]
    monkeypatch.setattr(module, "same_device", lambda one, other: False)
    pilots = counting(module, "pilot_widths", lambda job, points, *more: len(points))
    with counting(module, "on_device") as models, counting(module, "batch_on") as batches, pilots as measured_at:
        found = sdi.plan(world.model, **options(world, 7, examples=7, device="cpu:0", spread=True))
    assert (len(models), measured_at) == (1, [2])
    assert len(batches) == 4  # of the pilot, two of train that are as large, one of query
    assert found.sizes[0].seconds > 0


@pytest.mark.slow
def test_a_device_that_is_not_here_is_not_guessed_of(world):
    if torch.cuda.is_available():
        pytest.skip("it is here")
    found = sdi.plan(world.model, **options(world, 7, examples=7, device="cuda"))
    assert (found.device, found.timed_on, found.sizes[0].seconds) == ("cuda", "cpu", None)


def test_the_formulas_are_shown_with_their_numbers_and_all_goes_into_json():
    plan = predict(measured(), [60, 10**9], 3, 2, "cpu", True)
    said = str(plan)
    for words in (
        "2 n / 2 × 4 s to make and store a training example's features",
        "2 n × 0.1 s to read one",
        "1 MB held, with the model",
        "n × 1.22 kB for the ids and digests",
        "2 n × (16 B and its labels)",
        "1,000,000,000",
        "disk is exact",
    ):
        assert words in said
    assert json.loads(json.dumps(plan.to_dict()))["sizes"][1]["examples"] == 10**9
    assert plan.sizes[1].memory_bytes > 8 * 10**11  # of ids and digests, which the plan must not hide


def test_a_busy_machine_and_examples_of_several_lengths_are_said():
    found = measured()
    train = found.sides["train"]
    ragged = sdi.Features(train.features.values, np.array([1, 2]), train.features.blocks, "s")
    changed = {**vars(train), "features": ragged, "later": Cost(6.0, 2.0), "ids": ("one", "three")}
    plan = predict(measured(sides={**found.sides, "train": TimedSide(**changed)}), [60], 3, 1, "cpu", True)
    assert not plan.exact
    assert "the clock ran 3.0 times as long" in str(plan)
    assert "disk is a guess: examples are taken to have as many steps as the longest of the first batch; ids" in str(
        plan
    )


def test_bad_arguments_are_named(world):
    def refused(match: str, kind: type[Exception] = ValueError, **changes) -> None:
        with pytest.raises(kind, match=match):
            sdi.plan(world.model, **world.options(**changes))

    refused("examples must be at least 1, got 0", examples=[0])
    refused("examples must be at least one number", examples=[])
    refused("examples must be an integer, got 1.5", TypeError, examples=[1.5])
    refused("hosts must be at least 1, got 0", hosts=0)
    refused("queries must be at least 1, got 0", queries=0)
    refused("device must be a name such as 'cpu'", device="gpu9")
    refused("device must be one that computes, got 'meta'", device="meta")
    refused("train must be a list or a DataLoader, of which", train=iter(TRAIN))
    refused("query must be a list or a DataLoader, of which", query=iter(QUERY))
    refused("backend must be 'fast' or 'reference', got 'exact'", backend="exact")
