"""locked: a lock file that one process at a time holds; the system releases it when the process ends, also if killed.

`hold_store` is the lock of a store: the one process that fills it holds `lock`; where several do, each of n processes
shares `lock` and holds `lock.part-k-of-n`, so none of them is there twice, nor beside one that works alone.

Some file systems keep a lock from other hosts (`sdi/store/mount.py`). So whoever holds one writes process and host into
the file, and empties it at the end. Where locks may hold within one host only, a file that names another host is
refused: its process may be writing still. (No heartbeat is needed for that, and no clock: a lock that holds between
hosts is enough by itself, and where it does not, a person decides.)

Forked children share the open file, and with it the lock: a stuck DataLoader worker that outlives the run would keep
it. So every child closes its copy right after the fork.
"""

from __future__ import annotations

import errno
import os
import re
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sdi.errors import StoreError
from sdi.printable import printable
from sdi.store.mount import doubtful_locks
from sdi.store.share import Share

LOCK = "lock"
PART_LOCK = re.compile(r"lock\.part-(\d+)-of-(\d+)")
IN_PARTS = b"parts"  # what stands in `lock` while several processes share it
PATIENCE = 1.0  # seconds that one of several waits for another, which holds the lock alone while it tidies up
TRIES = 100  # to lock in a folder that others delete
BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)

_held: set[int] = set()
_changing = threading.RLock()  # taken while a lock is, so that no fork falls between opening and noting it


@contextmanager
def hold_store(folder: Path, share: Share) -> Iterator[Callable[[], bool]]:
    """Make the folder and hold the lock of its store, for a process that fills it alone or for one of several.

    Yields what `locked` does.
    """
    with ExitStack() as held:
        is_ours = _begin(folder, share.n > 1, held)
        if share.n == 1:
            yield is_ours
            return
        own = part_lock(folder, share)
        held.enter_context(locked(own, what=f"{share} of store {folder} is being made"))
        try:
            _refuse_other_parts(folder, share)
            yield is_ours
        finally:
            if is_ours():
                own.unlink(missing_ok=True)


def _begin(folder: Path, shared: bool, held: ExitStack) -> Callable[[], bool]:
    """Enter `locked` of the store's lock. Another process may have made the folder and, writing nothing, delete it."""
    tries = 0
    while True:
        tries += 1
        try:
            folder.mkdir(parents=True, exist_ok=True)
            return held.enter_context(locked(folder / LOCK, shared))
        except FileNotFoundError:
            if tries == TRIES:
                raise


def part_lock(folder: Path, share: Share) -> Path:
    """The file that one of several processes locks for itself."""
    return folder / f"{LOCK}.part-{share.k + 1}-of-{share.n}"


def refuse_taken(folder: Path, share: Share) -> None:
    """StoreError if another host took this one's lock: both began at once, where locks do not hold."""
    path = folder / LOCK if share.n == 1 else part_lock(folder, share)
    process, where = _named(path)
    if where not in ("", host()):
        raise StoreError(
            f"process {process} on host {where} writes to store {folder}, too, though this one holds {path.name}: "
            "locks of this file system do not hold between hosts; run one of the two at a time"
        )


def _refuse_other_parts(folder: Path, share: Share) -> None:
    """StoreError if the store is being filled in another number of parts; locks that killed ones left are deleted."""
    for file in folder.iterdir():
        found = PART_LOCK.fullmatch(file.name)
        if found is not None and int(found[2]) != share.n:
            with locked(file, what=f"store {folder} is being filled in {found[2]} parts, not {share.n},"):
                file.unlink()


@contextmanager
def locked(path: Path, shared: bool = False, what: str = "") -> Iterator[Callable[[], bool]]:
    """Hold the file's lock; StoreError with the id of the process that holds it, if another does.

    shared: hold it together with others that share it. what: how the message begins, by default with the folder.
    Yields a function that says whether this process still holds it, and is not a forked child.
    """
    handle = _take(path, shared, what)
    while os.fstat(handle).st_nlink == 0:  # removed by the one who had it, between our opening it and taking it
        _let_go(handle)
        handle = _take(path, shared, what)
    try:
        refuse_elsewhere(path)
        os.ftruncate(handle, 0)
        os.pwrite(handle, IN_PARTS if shared else f"{os.getpid()}\n{host()}".encode(), 0)
        yield lambda: handle in _held
    finally:
        if not shared and handle in _held and _named(path)[1] == host():
            os.ftruncate(handle, 0)
        _let_go(handle)


def host() -> str:
    """The name of this host, as lock files have it."""
    return socket.gethostname()


def refuse_elsewhere(path: Path) -> None:
    """StoreError if a lock file names another host, whose lock this one may not see."""
    process, where = _named(path)
    if where in ("", host()) or not (kind := doubtful_locks(path.parent)):
        return
    raise StoreError(
        f"{path} says that process {process} on host {where} writes to the store, and locks of this file system "
        f"({kind}) may hold within one host only; wait, or, if that process has ended, delete the file and run again"
    )


def _named(path: Path) -> tuple[str, str]:
    """The process and the host that a lock file names; "" where it names none."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return "", ""
    try:
        text = os.pread(handle, 512, 0).decode(errors="replace")
    finally:
        os.close(handle)
    process, _, where = text.partition("\n")
    return (process, printable(where)) if process.isdecimal() else ("", "")


def _take(path: Path, shared: bool, what: str) -> int:
    until = time.monotonic() + (PATIENCE if shared else 0)
    while (handle := _try(path, shared, what or f"store {path.parent} is being written", until)) is None:
        time.sleep(PATIENCE / 50)
    return handle


def _try(path: Path, shared: bool, what: str, until: float) -> int | None:
    """The open file, locked; None if another holds it and it is not yet the time `until`, then StoreError."""
    with _changing:
        handle = _open(path)
        try:
            if not _lock(handle, path, shared):
                if time.monotonic() >= until:
                    raise StoreError(f"{what} {_by_whom(handle)}, or use another folder")
                os.close(handle)
                return None
        except BaseException:
            os.close(handle)
            raise
        _held.add(handle)
    return handle


def _open(path: Path) -> int:
    """Open the lock file; refuses a symbolic link, whose target would be overwritten, and does not block on a pipe."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    try:
        handle = os.open(path, flags, 0o666)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StoreError(f"{path} is a symbolic link; remove it and run again") from None
    found = os.fstat(handle)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
        os.close(handle)
        raise StoreError(f"{path} is not a file of its own; remove it and run again")
    return handle


def _lock(handle: int, path: Path, shared: bool) -> bool:
    """Whether the lock could be taken now."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system: the last writer wins
        return True
    try:
        fcntl.flock(handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in BUSY:
            return False
        raise StoreError(
            f"{path} cannot be locked: {error.strerror}; use a folder on a file system with locks (an NFS mount "
            "without them has the option nolock)"
        ) from None
    return True


def _by_whom(handle: int) -> str:
    """Words for who holds the lock: the process whose id stands in the file, or a child that it left behind."""
    text, _, where = os.pread(handle, 512, 0).partition(b"\n")
    if text == IN_PARTS:
        return "by processes that fill it in parts; wait"
    if not text.isdigit():
        return "by another process; wait"
    elsewhere = printable(where.decode(errors="replace"))
    if elsewhere not in ("", host()):
        return f"by process {int(text)} on host {elsewhere}; wait"
    try:
        os.kill(int(text), 0)
    except (ProcessLookupError, OverflowError):
        return f"by a process that process {int(text)}, which has ended, left behind; end it"
    except OSError:  # another user's
        pass
    return f"by process {int(text)}; wait"


def _let_go(handle: int) -> None:
    with _changing:
        if handle in _held:  # or a child that was forked has closed it already
            _held.discard(handle)
            os.close(handle)


def _in_child() -> None:
    for handle in _held:
        os.close(handle)
    _held.clear()
    _changing.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_changing.acquire, after_in_parent=_changing.release, after_in_child=_in_child)
