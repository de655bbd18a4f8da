"""Several processes fill one store: the files are those of one process, whoever was killed; the others are refused."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attribution_cases import (
    QUERY,
    TRAIN,
    World,
    assert_same_result,
    featurized,
    files,
    flat,
    make_batches,
    shards,
    world,
)
from share_cases import ENDED, LEFT, REFUSED, SHARD, fill_part, in_children, run_ranks
from test_killed import at_call, die

from sdi import Result, Store, StoreError
from sdi.store.share import Share

__all__ = ["world"]
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
KILLED = -9
Whole = tuple[Result, dict[str, bytes]]


@pytest.fixture
def whole(world: World) -> Whole:
    """The result, and the files of a store, that one process leaves."""
    result = world.attribute(store=world.folder / "whole", shard=SHARD)
    return result, files(world.folder / "whole")


def is_finished(world: World, whole: Whole) -> bool:
    """Whether a run without parts finds everything done, and leaves the same as one that did it all."""
    with featurized() as calls:
        assert_same_result(world.attribute(store=world.store, shard=SHARD), whole[0])
    assert files(world.store) == whole[1]
    return flat(calls) == []


@pytest.mark.slow
@pytest.mark.parametrize("n", [2, 3, 9])
def test_parts_in_any_order_make_every_example_once_and_leave_the_files_of_one_process(
    world: World, whole: Whole, n: int
) -> None:
    with featurized() as calls:
        for k in reversed(range(n)):
            fill_part(world, Share(k, n))
    assert len(flat(calls)) == 2 * (7 + 3)
    assert is_finished(world, whole)


@pytest.mark.slow
def test_parts_at_the_same_time_leave_the_files_of_one_process(world: World, whole: Whole) -> None:
    assert in_children([lambda k=k: fill_part(world, Share(k, 3)) for k in range(3)]) == [ENDED] * 3  # type: ignore[misc]
    assert is_finished(world, whole)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "k", "before"), [("link", 0, False), ("replace", 1, True), ("replace", 2, False)])
def test_a_part_that_was_killed_is_made_again_by_the_same_part_or_without_parts(
    world: World, whole: Whole, name: str, k: int, before: bool
) -> None:
    def killed() -> None:
        at_call(name, k, before)()
        fill_part(world, Share(0, 2))

    for again in (lambda: fill_part(world, Share(0, 2)), lambda: None):
        shutil.rmtree(world.store, ignore_errors=True)
        assert in_children([killed]) == [KILLED]
        fill_part(world, Share(1, 2))
        again()
        is_finished(world, whole)


@pytest.mark.slow
def test_the_files_of_a_part_that_still_works_are_left_alone(world: World) -> None:
    fill_part(world, Share(1, 2))
    half = shards(world.store)[0].with_name("shard-00000.safetensors.part")
    half.write_bytes(b"half")
    fill_part(world, Share(1, 2))
    assert half.read_bytes() == b"half"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"shard": 7}, r"shard-00000.safetensors does not hold .* \(example 't-6' is in shard-00001.safetensors\)"),
        ({"train": [*TRAIN, *make_batches(1, "new", seed=5)]}, r"train/shard-00001.*example 'new-0' is not there"),
        ({"train": TRAIN[:1]}, r"train/shard-00000.* \(it has 6 examples, not 3\)"),
        ({"train": TRAIN[:2]}, ""),
        ({"query": make_batches(3, "new", seed=5)}, r"query/shard-00000.*example 'new-0' is not there"),
    ],
)
def test_parts_refuse_a_store_that_was_filled_in_other_groups(world: World, changes: Any, words: str) -> None:
    world.attribute(store=world.store, shard=SHARD)
    before = files(world.store)
    if words:
        with pytest.raises(StoreError, match=f"{words}.*fill it without a part$"):
            fill_part(world, Share(0, 2), **changes)
    else:  # fewer examples, whole groups: nothing to do
        fill_part(world, Share(0, 2), **changes)
    assert files(world.store) == before


@pytest.mark.slow
def test_a_part_is_there_once_beside_parts_of_its_own_number_and_never_beside_a_whole_run(world: World) -> None:
    world.attribute(store=world.store)
    before = files(world.store)

    def refused(share: Share, words: str) -> None:
        with pytest.raises(StoreError, match=words), Store(world.store).writing(share):
            pass

    with Store(world.store).writing(Share(0, 2)), Store(world.store).writing(Share(1, 2)):
        refused(Share(), r"is being written by processes that fill it in parts; wait")
        refused(Share(0, 2), rf"^part 1 of 2 of store .* is being made by process {os.getpid()}; wait")
        refused(Share(0, 3), rf"is being filled in 2 parts, not 3, by process {os.getpid()}; wait")
        assert (world.store / "lock.part-1-of-2").is_file()
    with Store(world.store).writing():
        refused(Share(0, 2), rf"is being written by process {os.getpid()}; wait")
    (world.store / "lock.part-7-of-9").write_text("left by a part that was killed")
    with Store(world.store).writing(Share(0, 2)):
        assert not (world.store / "lock.part-7-of-9").exists()
    (world.store / "lock.part-1-of-2").write_text("left")
    with Store(world.store).writing():
        assert not (world.store / "lock.part-1-of-2").exists()
    assert files(world.store) == before


@pytest.mark.slow
def test_a_part_that_is_refused_leaves_nothing_behind(world: World) -> None:
    with pytest.raises(ValueError, match="query gave no examples"):
        fill_part(world, Share(0, 2), query=[])

    class Bad(list[Any]):
        def __iter__(self) -> Any:
            raise RuntimeError("unreadable")

    with pytest.raises(RuntimeError, match="unreadable"):
        fill_part(world, Share(0, 2), train=Bad())
    assert not world.store.exists()


def test_a_file_system_without_locks_is_named_and_not_taken_for_another_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sdi.store.lock import locked

    def no_locks(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    words = r"lock cannot be locked: No locks available; use a folder"
    with pytest.raises(StoreError, match=words), locked(tmp_path / "lock"):
        pass


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "a/b", "-1/2", "1/2/3", ""])
def test_a_part_is_written_k_of_n_from_one(text: str) -> None:
    with pytest.raises(ValueError, match="part must be k/n"):
        Share.parse(text)


def scores_of_ranks(world: World, n: int) -> set[bytes]:
    return {(world.folder / f"rank-{k}.safetensors").read_bytes() for k in range(n)}


@pytest.mark.slow
def test_ranks_leave_the_files_of_one_process_and_all_have_the_result(world: World, whole: Whole) -> None:
    made = world.folder / "made"

    def counted() -> None:
        import sdi.fast

        make = sdi.fast.Featurizer.__call__

        def told(self: Any, batch: Any, ids: Any = ()) -> Any:
            with made.open("a") as file:
                file.write("." * len(ids))
            return make(self, batch, ids)

        sdi.fast.Featurizer.__call__ = told  # type: ignore[method-assign]

    assert run_ranks(world, 2, {0: counted}) == [ENDED, ENDED]
    assert len(made.read_text()) == 10  # of 20: groups of 6, 3 and 1
    assert len(scores_of_ranks(world, 2)) == 1
    assert is_finished(world, whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rank", "sabotage", "then"),
    [
        (1, at_call("replace", 1, before=True), 2),
        (0, at_call("replace", 2, before=False), 3),
        (1, at_call("fsync", 4, before=True), 1),
        (0, at_call("replace", 0, before=True), 2),
    ],
    ids=["between a shard and its labels", "after labels", "in a file", "before a shard"],
)
def test_a_rank_that_is_killed_ends_the_others_and_any_number_of_ranks_goes_on(
    world: World, whole: Whole, rank: int, sabotage: Callable[[], None], then: int
) -> None:
    codes = run_ranks(world, 2, {rank: sabotage})
    assert (codes[rank], codes[1 - rank]) == (KILLED, LEFT)
    if then > 1:
        assert run_ranks(world, then) == [ENDED] * then
        assert len(scores_of_ranks(world, then)) == 1
    is_finished(world, whole)


@pytest.mark.slow
def test_ranks_that_read_other_examples_are_refused_before_anything_is_made(
    world: World, capfd: pytest.CaptureFixture[str]
) -> None:
    def shares(rank: int) -> dict[str, Any]:  # as a DistributedSampler deals them out
        return {"train": TRAIN[rank:]}

    assert run_ranks(world, 2, options=shares) == [REFUSED, REFUSED]
    said = "train gave other examples, or in other batches, to rank 1 than to rank 0; every rank must read all"
    assert capfd.readouterr().out.count(said) == 2
    assert not world.store.exists()
    assert run_ranks(world, 2, options=lambda rank: {"query": QUERY if rank else make_batches(2, "q", 7)}) == [3, 3]
    assert not world.store.exists()


@pytest.mark.slow
def test_ranks_that_do_not_share_a_folder_are_refused(world: World, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_ranks(world, 2, options=lambda rank: {"store": world.folder / f"store-{rank}"}) == [LEFT, REFUSED]
    assert "rank 1 of 2 does not see what rank 0 writes to" in capfd.readouterr().out


@pytest.mark.slow
def test_one_rank_of_a_job_may_work_alone_and_together_they_need_a_store(world: World) -> None:
    assert run_ranks(world, 2, options=lambda rank: {"store": None, "ranks": False}) == [ENDED, ENDED]
    assert run_ranks(world, 2, options=lambda rank: {"store": None}) == [REFUSED, REFUSED]


def test_the_killer_of_ranks_kills() -> None:
    assert in_children([die, lambda: None]) == [KILLED, ENDED]
