"""fetched: a store in object storage (s3://, gs://, ..., through fsspec), read as if it were a folder of this disk.

What is small (manifest, run.json, the .json of every shard) is fetched into a temporary folder when the store is
opened, and read there with all checks of any store. Shards are fetched when they are needed, checked against the sha256
that their sealed .json names, and kept in a cache folder under that name: what is kept has the content that was asked
for, whichever store or place asks. Nothing that a store says leads elsewhere: names are taken from a listing below the
URL, and only those of a store's own files.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdi.errors import StoreError
from sdi.files import PART, sha256, shown_url

SMALL = re.compile(r"manifest\.json|run\.json|[^/\\\x00-\x1f]*-[0-9a-f]{8}/(train|query)/shard-\d{5,}\.json")
SMALL_BYTES = 1 << 31  # of all small files together
BLOCK = 1 << 22
HEX = re.compile(r"[0-9a-f]{64}")
CACHE = "SDI_CACHE"  # in the environment: the folder that shards are kept in

_fetched: dict[Path, Remote] = {}  # of the temporary folders of this process


@dataclass(frozen=True)
class Remote:
    """A folder in object storage."""

    url: str  # as it is shown: without a password
    files: Any  # fsspec's file system
    root: str
    folder: Path  # with the small files

    def fetch(self, name: str, digest: str) -> Path:
        """The local copy of a file with this sha256; StoreError if the file there has another."""
        if not HEX.fullmatch(digest):
            raise StoreError(f"{self.url} names {digest!r} as a sha256; it was altered")
        kept = cache_folder() / digest
        if _is_own_file(kept) and sha256(kept) == digest:
            return kept
        with suppress(FileNotFoundError):
            kept.unlink()
        handle, part = tempfile.mkstemp(PART, f"{digest}-", kept.parent)
        try:
            found = hashlib.sha256()
            with open(handle, "wb") as file, self._reading(name), self.files.open(f"{self.root}/{name}", "rb") as there:
                while block := there.read(BLOCK):
                    file.write(block)
                    found.update(block)
            if found.hexdigest() != digest:
                raise StoreError(f"{self.url}/{name} is truncated or altered; copy it there again")
            os.replace(part, kept)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)
        return kept

    def fetch_small(self) -> None:
        """Fetch what says where features are, into the temporary folder."""
        with self._reading(""):
            found = self.files.find(self.root, detail=True)
        prefix = self.root.rstrip("/") + "/"
        names = {path: path.removeprefix(prefix) for path in found if path.startswith(prefix)}
        names = {path: name for path, name in names.items() if SMALL.fullmatch(name)}
        if sum(int(found[path].get("size") or 0) for path in names) > SMALL_BYTES:
            raise StoreError(f"{self.url} has more than {SMALL_BYTES >> 30} GiB of .json files; copy it to a disk")
        with self._reading(""):
            contents = self.files.cat(list(names)) if names else {}
        for path, name in names.items():
            file = self.folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(contents[path])

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        with _said_of(f"{self.url}/{name}".rstrip("/")):
            yield


def fetched(url: str) -> Path:
    """A temporary folder with the small files of a store in object storage; `remote_of` it fetches the others."""
    shown = shown_url(url)
    if "::" in url or url.startswith(("http://", "https://")):
        raise StoreError(
            f"{shown} has no list of its files to read a store by; copy the store to a disk, or to a bucket"
        )
    import fsspec

    with _said_of(shown):
        files, root = fsspec.core.url_to_fs(url)
    folder = Path(tempfile.mkdtemp(prefix="sdi-fetched-"))
    atexit.register(_remove, folder, os.getpid())
    remote = Remote(shown, files, root.rstrip("/"), folder)
    remote.fetch_small()
    if not (folder / "manifest.json").is_file():
        raise StoreError(f"{shown} is not a store: it has no manifest.json")
    _fetched[folder] = remote
    return folder


def _remove(folder: Path, process: int) -> None:
    if os.getpid() == process:  # not in a forked child that ends
        shutil.rmtree(folder, ignore_errors=True)


def remote_of(folder: Path) -> Remote | None:
    """Where a folder was fetched from in this process."""
    return _fetched.get(folder)


def cache_folder() -> Path:
    """The folder that fetched shards are kept in: SDI_CACHE, or sdi in the user's cache folder. Delete it at will."""
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folder = Path(os.environ.get(CACHE) or os.path.join(home, "sdi"))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
        raise StoreError(f"{folder}, where fetched shards are kept, can be written by others; set {CACHE} to your own")
    return folder


def _is_own_file(path: Path) -> bool:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_nlink == 1


@contextmanager
def _said_of(place: str) -> Iterator[None]:
    """StoreError with the place for whatever a file system raises."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError(f"{place} does not exist") from None
    except (StoreError, MemoryError):
        raise
    except Exception as error:  # of the library that talks to the storage: of any kind
        raise StoreError(f"{place} cannot be read: {type(error).__name__}: {error}") from None
