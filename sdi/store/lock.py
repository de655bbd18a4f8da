"""locked: one process at a time, by a lock that the system drops when the process ends, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdi.errors import StoreError


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the file's lock, or be refused with the id of the process that does."""
    handle = _take(path)
    while os.fstat(handle).st_nlink == 0:  # removed by the one who had it, between our opening it and taking it
        os.close(handle)
        handle = _take(path)
    try:
        os.ftruncate(handle, 0)
        os.write(handle, str(os.getpid()).encode())
        yield
    finally:
        os.close(handle)


def _take(path: Path) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        import fcntl
    except ImportError:  # not a POSIX system: the last writer wins
        return handle
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        owner = os.pread(handle, 32, 0).decode() or "another"
        os.close(handle)
        raise StoreError(
            f"store {path.parent} is being written by process {owner}; wait, or use another folder"
        ) from None
    return handle
