"""Locks of file systems that several hosts share: trusted where they hold between hosts, refused in words elsewhere."""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from attribution_cases import World, filled, world

from sdi import Store, StoreError
from sdi.store import lock, mount
from sdi.store.lock import locked, refuse_taken
from sdi.store.share import Share

__all__ = ["filled", "world"]
DISK = "22 27 254:0 / / rw,relatime - ext4 /dev/sda1 rw"
KINDS = {
    "nfs4 rw,vers=4.2,hard,local_lock=none": None,
    "nfs rw,vers=3,nolock,local_lock=all": "nfs with nolock",
    "nfs4 rw,local_lock=flock": "nfs4 with local_lock=flock",
    "nfs rw,local_lock=posix": None,
    "lustre rw,flock,lazystatfs": None,
    "lustre rw,localflock": "lustre",
    "fuse.sshfs rw,user_id=0": "fuse.sshfs",
    "beegfs rw": "beegfs",
    "xfs rw": None,
}


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """A folder that is listed as a file system of some kind."""

    def as_kind(kind: str) -> Path:
        folder = tmp_path / "a disk"
        folder.mkdir(exist_ok=True)
        name, options = kind.split()
        place = str(folder.resolve()).replace(" ", r"\040")
        listed = tmp_path / "mountinfo"
        listed.write_text(f"{DISK}\n30 22 0:50 / {place} rw,relatime shared:9 - {name} server:/x {options}\nodd line\n")
        monkeypatch.setattr(mount, "MOUNTS", listed)
        return folder

    return as_kind


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Go to another host, where no lock of this one is seen."""
    monkeypatch.setattr(fcntl, "flock", lambda handle, how: None)
    return lambda name: monkeypatch.setattr(socket, "gethostname", lambda: name)


@pytest.mark.parametrize("kind", KINDS)
def test_the_file_system_of_a_folder_is_read_from_the_list_of_mounts(
    mounted: Callable[[str], Path], kind: str, tmp_path: Path
) -> None:
    folder = mounted(kind)
    assert mount.doubtful_locks(folder) == KINDS[kind]
    (folder / "store").mkdir()
    assert mount.doubtful_locks(folder / "store") == KINDS[kind]
    assert mount.doubtful_locks(tmp_path) is None


def test_a_system_without_a_list_of_mounts_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mount, "MOUNTS", tmp_path / "none")
    assert mount.doubtful_locks(tmp_path) is None


def test_where_locks_hold_within_one_host_a_process_of_another_one_is_refused_until_it_ends(
    mounted: Callable[[str], Path], host: Callable[[str], None]
) -> None:
    path = mounted("fuse.sshfs rw") / "lock"
    for shared in (False, True):
        host("a")
        with locked(path):
            host("b")
            words = rf"lock says that process {os.getpid()} on host a writes .* \(fuse.sshfs\) may hold within one host"
            with pytest.raises(StoreError, match=words), locked(path, shared):
                pass
            assert path.read_text() == f"{os.getpid()}\na"
            host("a")
        host("b")
        with locked(path, shared):  # what ended by itself has emptied the file
            pass
    path.write_text("77\n\x1b]0;x")
    with pytest.raises(StoreError, match=r"host \\x1b\]0;x writes"), locked(path):
        pass


@pytest.mark.parametrize("kind", ["ext4 rw", "nfs4 rw,local_lock=none"])
def test_where_locks_hold_between_hosts_what_a_killed_process_left_is_taken(
    mounted: Callable[[str], Path], kind: str
) -> None:
    path = mounted(kind) / "lock"
    path.write_text("77\na")
    with locked(path):
        assert path.read_text() == f"{os.getpid()}\n{lock.host()}"
    assert path.read_text() == ""


def test_a_lock_that_another_host_holds_says_which_one(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path):
        path.write_text("77\na")
        with pytest.raises(StoreError, match="is being written by process 77 on host a; wait"), locked(path):
            pass


def test_a_part_that_works_on_another_host_is_not_cleared_away(filled: World, monkeypatch: pytest.MonkeyPatch) -> None:
    left = filled.store / "lock.part-1-of-2"
    left.write_text("77\na")
    monkeypatch.setattr(mount, "MOUNTS", filled.folder / "mounts")
    mount.MOUNTS.write_text("22 27 0:50 / / rw - beegfs x rw")
    with pytest.raises(StoreError, match=r"77 on host a .*beegfs"), Store(filled.store).writing():
        pass
    assert left.exists()
    monkeypatch.undo()
    with Store(filled.store).writing():
        assert not left.exists()


@pytest.mark.parametrize(("share", "name"), [(Share(), "lock"), (Share(0, 2), "lock.part-1-of-2")])
def test_of_two_hosts_that_took_one_lock_at_once_the_first_stops_at_its_next_shard(
    filled: World, share: Share, name: str
) -> None:
    with Store(filled.store).writing(share):
        refuse_taken(filled.store, share)
        (filled.store / name).write_text("77\na")
        with pytest.raises(
            StoreError, match=rf"process 77 on host a writes to store .*, too, though this one holds {name}"
        ):
            refuse_taken(filled.store, share)
