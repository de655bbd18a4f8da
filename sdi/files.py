"""Files that are whole or not there: written beside, flushed to disk, then renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import numpy as np

PART = ".part"
FULL = (errno.ENOSPC, errno.EDQUOT)


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
        if error.filename is None and error.errno not in FULL:  # over a limit, say: the system does not say of what
            raise OSError(error.errno, error.strerror, str(path)) from None
        if error.errno in FULL:
            raise OSError(
                error.errno, f"the disk is full: {path} was not written; what was finished before is valid, run again"
            ) from None
        raise
    _flush_folder(path.parent)


def expand(path: str | Path) -> Path:
    """A path whose ~ is the user's home."""
    return Path(os.path.expanduser(path))  # Path's own raises for a user who does not exist


def sha256(path: Path, also: bytes = b"") -> str:
    """The digest of a file's content, and of what stands elsewhere."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            digest.update(block)
    digest.update(also)
    return digest.hexdigest()


def map_safetensors(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file as memory maps: a header of JSON, then raw data."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    names = {"F16": np.float16, "F32": np.float32, "F64": np.float64}
    out: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start = 8 + length + entry["data_offsets"][0]
            out[name] = np.memmap(path, names[entry["dtype"]], "r", start, tuple(entry["shape"]))
    return out


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
