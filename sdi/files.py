"""Atomic file writes: to a temporary file, flushed to disk, then renamed. A file is whole or not there."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from contextlib import suppress
from pathlib import Path

import numpy as np

from sdi.errors import StoreError

PART = ".part"
URL = re.compile(r"[a-z][a-z0-9+.-]+://")
FULL = (errno.ENOSPC, errno.EDQUOT)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that it is never seen half-written, not even after a crash."""
    _write(path, content, path.with_name(path.name + PART))


def write_first(path: Path, content: bytes, writer: str) -> None:
    """Write a file unless it is there. Of several processes that try at once, one does. writer: a name for each."""
    _write(path, content, path.with_name(f"{path.name}-{writer}{PART}"), unless_there=True)


def _write(path: Path, content: bytes, part: Path, unless_there: bool = False) -> None:
    refuse_link(part)
    try:
        part.unlink(missing_ok=True)  # left by a killed run; not reopened: it might be a hard link to another file
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if unless_there:
            with suppress(FileExistsError):
                os.link(part, path)
            part.unlink()
        else:
            os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        if error.filename is None and error.errno not in FULL:  # such as a file size limit: name the file
            raise OSError(error.errno, error.strerror, str(path)) from None
        if error.errno in FULL:
            raise OSError(
                error.errno, f"the disk is full: {path} was not written; what was finished before is valid, run again"
            ) from None
        raise
    _flush_folder(path.parent)


def refuse_link(path: Path) -> None:
    """Raise if the path is a symbolic link: writing or deleting through it would act on another place."""
    if path.is_symlink():
        raise StoreError(f"{path} is a symbolic link; remove it and run again")


def expand(path: str | Path) -> Path:
    """A path whose ~ is the user's home."""
    return Path(os.path.expanduser(path))  # Path's own raises for a user who does not exist


def is_url(place: object) -> bool:
    """Whether this is the text of a place in object storage, such as s3://bucket/store."""
    return isinstance(place, str) and URL.match(place) is not None


def shown_url(url: str) -> str:
    """A URL without a password in it."""
    return re.sub(r"://[^/@]*@", "://", url).rstrip("/")


def refuse_url(name: str, place: object) -> None:
    """ValueError for a place in object storage, where a store can be read and not written. name: the argument's."""
    if is_url(place):
        raise ValueError(
            f"{name} must be a folder on a disk or a shared file system, got {shown_url(str(place))!r}: object storage "
            "has neither locks nor renames; fill a folder, and copy it there to be read"
        )


def sha256(path: Path, also: bytes = b"") -> str:
    """The sha256, in hex, of a file's content followed by the bytes `also`."""
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
    names = {"I8": np.int8, "F16": np.float16, "F32": np.float32, "F64": np.float64}
    out: dict[str, np.ndarray] = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start = 8 + length + entry["data_offsets"][0]
            out[name] = np.memmap(path, names[entry["dtype"]], "r", start, tuple(entry["shape"]))
    return out


def _flush_folder(folder: Path) -> None:
    """Flush the folder's entry to disk, so that a rename survives a crash; systems that cannot are passed over."""
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
