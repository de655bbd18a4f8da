"""Files that are whole or not there: written beside, flushed to disk, then renamed."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

PART = ".part"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written, not even after a crash."""
    part = path.with_name(path.name + PART)
    try:
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        if error.errno == errno.ENOSPC:
            raise OSError(
                errno.ENOSPC, f"the disk is full: {path} was not written; what was finished before is valid, run again"
            ) from None
        raise
    _flush_folder(path.parent)


def sha256(path: Path) -> str:
    """The digest of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    return digest.hexdigest()


def _flush_folder(folder: Path) -> None:
    """Make the rename itself last; not every system can."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
