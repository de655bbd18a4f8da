"""Killed at any instant and run again: the same bytes, the same result, and at most one shard made twice."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from typing import Any

import pytest
from attribution_cases import World, assert_same_result, featurized, files, flat, world

import sdi.fast
from sdi import Result

__all__ = ["world"]
pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork"),
    pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning"),
]
SHARD, TOTAL = 3, 20  # examples per shard; examples over both sides and checkpoints


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(world: World, sabotage: Callable[[], None]) -> tuple[bool, int]:
    """Attribute in a process of its own, sabotaged; whether it was killed, and how many examples it had made."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            signal.alarm(60)
            make = sdi.fast.Featurizer.__call__

            def told(self: Any, batch: Any, ids: Any = ()) -> Any:
                features = make(self, batch, ids)
                os.write(write, b"." * len(ids))
                return features

            sdi.fast.Featurizer.__call__ = told  # type: ignore[method-assign]
            sabotage()
            world.attribute(store=world.store, shard=SHARD)
        finally:
            os._exit(7)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        made = len(pipe.read())
    _, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, made


def at_call(name: str, k: int, before: bool, harm: Callable[..., None] = lambda *args: None) -> Callable[[], None]:
    """Die at the k-th call of os.name, before or after it is carried out."""

    def sabotage() -> None:
        original, calls = getattr(os, name), 0

        def call(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == k + 1 and before:
                harm(*args)
                die()
            out = original(*args)
            if calls == k + 1:
                die()
            return out

        setattr(os, name, call)

    return sabotage


def cut_in_half(handle: int) -> None:
    os.ftruncate(handle, os.fstat(handle).st_size // 2)


@pytest.fixture
def whole(world: World) -> tuple[Result, dict[str, bytes]]:
    result = world.attribute(store=world.folder / "whole", shard=SHARD)
    return result, files(world.folder / "whole")


def resumes(world: World, whole: tuple[Result, dict[str, bytes]], sabotage: Callable[[], None]) -> bool:
    """Kill a run, resume it, and compare. False if it ended before it could be killed."""
    killed, made = run_and_die(world, sabotage)
    with featurized() as calls:
        result = world.attribute(store=world.store, shard=SHARD)
    assert_same_result(result, whole[0])
    assert files(world.store) == whole[1]
    if killed:
        assert made + len(flat(calls)) - TOTAL <= SHARD, f"made {made}, then {len(flat(calls))}"
    return killed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "before", "harm"),
    [
        ("replace", True, lambda *args: None),
        ("replace", False, lambda *args: None),
        ("fsync", True, cut_in_half),
    ],
    ids=["before a rename", "after a rename", "in the middle of a file"],
)
def test_killed_while_writing_it_goes_on_where_it_was(
    world: World, whole: Any, name: str, before: bool, harm: Any
) -> None:
    renames = 1 + 2 * 2 * 4  # the manifest; 4 shards of 2 files at 2 checkpoints
    calls = renames if name == "replace" else 2 * renames  # a file and its folder are flushed
    for k in range(0, calls, 3 if name == "replace" else 6):  # odd and even: shards and their labels in turn
        shutil.rmtree(world.store, ignore_errors=True)
        assert resumes(world, whole, at_call(name, k, before, harm))


@pytest.mark.slow
def test_killed_over_and_over_it_still_arrives(world: World, whole: Any) -> None:
    """Always the third rename from where it was: a run that cannot keep what it made would never end."""
    runs = 0
    while run_and_die(world, at_call("replace", 2, before=True))[0]:
        runs += 1
        assert runs < 20
    assert runs > 4
    assert files(world.store) == whole[1]


@pytest.mark.slow
def test_killed_between_batches_it_goes_on_where_it_was(world: World, whole: Any) -> None:
    for k in (1, 2, 4, 6):

        def sabotage(k: int = k) -> None:
            calls = 0

            def progress(told: Any) -> None:
                nonlocal calls
                calls += 1
                if calls == k:
                    die()

            before = world.attribute
            world.attribute = lambda **options: before(**options, progress=progress)  # type: ignore[method-assign]

        shutil.rmtree(world.store, ignore_errors=True)
        assert resumes(world, whole, sabotage)


@pytest.mark.slow
def test_what_a_killed_run_left_half_written_is_cleared_away(world: World, whole: Any) -> None:
    """Also where the next run would not write over it."""
    world.attribute(store=world.store, shard=SHARD)
    side = next(world.store.glob("step-9-*")) / "train"
    (side / "shard-00009.safetensors").write_bytes(b"features without labels")
    (side / "shard-00010.safetensors.part").write_bytes(b"half")
    (world.store / "manifest.json.part").write_bytes(b"{")
    assert_same_result(world.attribute(store=world.store, shard=SHARD), whole[0])
    assert files(world.store) == whole[1]


@pytest.mark.slow
def test_the_killer_kills_and_a_run_that_is_left_alone_ends(world: World) -> None:
    assert run_and_die(world, die) == (True, 0)
    killed, made = run_and_die(world, lambda: None)
    assert (killed, made) == (False, TOTAL)
