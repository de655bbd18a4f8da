"""locked: a lock file that one process at a time holds; the system releases it when the process ends, also if killed.

Forked children share the open file, and with it the lock: a stuck DataLoader worker that outlives the run would keep
it. So every child closes its copy right after the fork.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sdi.errors import StoreError

_held: set[int] = set()
_changing = threading.RLock()  # taken while a lock is, so that no fork falls between opening and noting it


@contextmanager
def locked(path: Path) -> Iterator[Callable[[], bool]]:
    """Hold the file's lock; StoreError with the id of the process that holds it, if another does.

    Yields a function that says whether this process still holds it, and is not a forked child.
    """
    handle = _take(path)
    while os.fstat(handle).st_nlink == 0:  # removed by the one who had it, between our opening it and taking it
        _let_go(handle)
        handle = _take(path)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield lambda: handle in _held
    finally:
        _let_go(handle)


def _take(path: Path) -> int:
    with _changing:
        handle = _open(path)
        try:
            _lock(handle, path)
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


def _lock(handle: int, path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # not a POSIX system: the last writer wins
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise StoreError(f"store {path.parent} is being written {_by_whom(handle)}, or use another folder") from None


def _by_whom(handle: int) -> str:
    """Words for who holds the lock: the process whose id stands in the file, or a child that it left behind."""
    text = os.pread(handle, 32, 0)
    if not text.isdigit():
        return "by another process; wait"
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
