"""Links are never written through, nor deleted behind; the lock ends with its process, whatever that started."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from attribution_cases import World, assert_same_result, files, filled, make_batches, shards, world

from sdi import StoreError
from sdi.files import write_whole
from sdi.store.lock import locked

__all__ = ["filled", "world"]


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    (tmp_path / "precious").write_text("ten years")
    return tmp_path / "precious"


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_lock_that_is_a_link_is_refused_and_its_target_stays(filled: World, precious: Path, link: object) -> None:
    lock = filled.store / "lock"
    lock.unlink()
    link(precious, lock) if link is os.symlink else lock.hardlink_to(_beside(precious, filled.store))
    before = files(filled.store)
    with pytest.raises(StoreError, match=r"lock is (a symbolic link|not a file of its own); remove it and run again$"):
        filled.attribute(store=filled.store)
    assert lock.read_text() == "ten years"
    assert files(filled.store) == before


def _beside(file: Path, store: Path) -> Path:
    """A copy on the store's own disk: hard links do not cross disks."""
    copy = store.parent / file.name
    copy.write_bytes(file.read_bytes())
    return copy


def test_a_lock_that_is_a_pipe_is_refused(filled: World) -> None:
    (filled.store / "lock").unlink()
    os.mkfifo(filled.store / "lock")
    with pytest.raises(StoreError, match=r"lock is not a file of its own"):
        filled.attribute(store=filled.store)


@pytest.mark.parametrize("link", ["symbolic", "hard"])
def test_what_is_written_goes_into_no_link(tmp_path: Path, precious: Path, link: str) -> None:
    part = tmp_path / "file.part"
    if link == "symbolic":
        part.symlink_to(precious)
        with pytest.raises(StoreError, match=r"file.part is a symbolic link; remove it and run again$"):
            write_whole(tmp_path / "file", b"new")
        assert not (tmp_path / "file").exists()
    else:
        part.hardlink_to(precious)
        write_whole(tmp_path / "file", b"new")
    assert precious.read_text() == "ten years"


def test_a_file_that_is_a_link_is_replaced_and_its_target_stays(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "file").symlink_to(precious)
    write_whole(tmp_path / "file", b"new")
    assert ((tmp_path / "file").read_bytes(), precious.read_text()) == (b"new", "ten years")


@pytest.mark.parametrize("level", ["checkpoint", "side"])
def test_a_linked_folder_in_a_store_is_neither_cleaned_nor_written_to(filled: World, level: str) -> None:
    elsewhere = filled.folder / "elsewhere"
    side = shards(filled.store)[-1].parent
    linked = side.parent if level == "checkpoint" else side
    linked.rename(elsewhere)
    linked.symlink_to(elsewhere)
    lone = elsewhere / ("train/shard-00009.safetensors" if level == "checkpoint" else "shard-00009.safetensors")
    lone.write_text("ten years")
    before = files(filled.folder)
    for query in (filled.options()["query"], make_batches(2, "new", seed=5)):
        with pytest.raises(StoreError, match=f"{linked.name} is a symbolic link"):
            filled.attribute(store=filled.store, query=query)
    assert files(filled.folder) == before


@pytest.mark.slow
def test_a_store_may_be_a_link_itself(filled: World) -> None:
    filled.store.rename(filled.folder / "large disk")
    filled.store.symlink_to(filled.folder / "large disk")
    assert_same_result(filled.attribute(store=filled.store), filled.attribute(shard=3))


HOLD_AND_FORK = """
import os, sys, time
from pathlib import Path
from sdi.store.lock import locked

with locked(Path(sys.argv[1])) as held:
    child = os.fork()
    if child == 0:
        os.write(1, b"free\\n" if not held() else b"held\\n")
        if sys.argv[2] == "stay":
            time.sleep(60)
        sys.exit()  # leaves the block as well
    os.waitpid(child, os.WNOHANG if sys.argv[2] == "stay" else 0)
    os.write(1, b"%d\\n" % child)
    sys.stdin.read()
"""


def hold_and_fork(lock: Path, then: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-W", "ignore", "-c", HOLD_AND_FORK, str(lock), then]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_a_worker_that_outlives_a_killed_run_does_not_hold_its_lock(tmp_path: Path) -> None:
    with hold_and_fork(tmp_path / "lock", "stay") as run:
        assert run.stdout is not None
        said = {run.stdout.readline().strip(), run.stdout.readline().strip()}
        assert "free" in said
        (worker,) = (int(word) for word in said - {"free"})
        try:
            with pytest.raises(StoreError, match=f"written by process {run.pid}; wait"), locked(tmp_path / "lock"):
                pass
            run.send_signal(signal.SIGKILL)
            run.wait()
            os.kill(worker, 0)  # still there
            with locked(tmp_path / "lock"):
                assert (tmp_path / "lock").read_text() == f"{os.getpid()}\n{socket.gethostname()}"
        finally:
            os.kill(worker, signal.SIGKILL)


@pytest.mark.slow
def test_a_child_that_leaves_the_block_leaves_the_lock_with_its_parent(tmp_path: Path) -> None:
    with hold_and_fork(tmp_path / "lock", "leave") as run:
        assert run.stdout is not None
        assert run.stdout.readline() == "free\n"
        run.stdout.readline()
        with pytest.raises(StoreError, match=f"written by process {run.pid}; wait"), locked(tmp_path / "lock"):
            pass
        run.kill()


def test_a_lock_held_by_a_process_that_is_not_the_one_named_says_so(tmp_path: Path) -> None:
    import fcntl

    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    for text, words in (
        (str(ended.pid), f"by a process that process {ended.pid}, which has ended, left behind; end it"),
        ("\x1b]0;x", "by another process; wait"),
        ("", "by another process; wait"),
    ):
        (tmp_path / "lock").write_text(text)
        with (tmp_path / "lock").open() as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            with pytest.raises(StoreError, match=words), locked(tmp_path / "lock"):
                pass
