"""Index: a search structure of a store's training examples, and its file beside the store's.

The file is safetensors, sealed; its metadata say which store, checkpoints, etas and examples it is of. It also holds
16 bytes for each example and checkpoint, a digest of the stored row: so that the few rows which are read to rank
candidates can be checked without reading whole shards. An index that is not of what is asked for is refused. It is
searched by FAISS, which is given arrays that were checked, and never a file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sdi.errors import StoreError
from sdi.files import refuse_link, sha256, write_whole
from sdi.inputs.checkpoints import Checkpoint
from sdi.retrieval.structure import KINDS, Searcher, check_structure
from sdi.seal import HOLE, is_whole, sealed
from sdi.store.store import Store

Array = np.ndarray
VERSION = 1
DIGEST = 16  # bytes
DIGESTS = "digests"
KEYS = {"sha256", "version", "kind", "of"}


@dataclass(frozen=True, eq=False)
class Index:
    """A search structure with what it is of; what `build_index` returns.

    >>> index = Index("exact", {"vectors": np.ones((2, 3), np.float32)}, np.zeros((2, 1, 16), np.uint8), {})
    >>> len(index), index.nbytes
    (2, 24)
    """

    kind: str  # "exact" or "compressed"
    arrays: Mapping[str, Array]  # of the structure
    digests: UInt8[Array, "n K 16"]  # of the stored rows
    of: Mapping[str, Any]  # the store, checkpoints, etas and examples, as JSON values

    @cached_property
    def searcher(self) -> Searcher:
        """The structure, ready to be searched; made when it is first asked for."""
        return Searcher(self.kind, self.arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of the structure, without the digests of rows."""
        return sum(array.nbytes for array in self.arrays.values())

    def __len__(self) -> int:
        return len(self.digests)

    def save(self, path: Path) -> None:
        """Write the file, whole or not at all."""
        meta = {"sha256": HOLE, "version": VERSION, "kind": self.kind, "of": dict(self.of)}
        tensors = {**self.arrays, DIGESTS: self.digests}
        refuse_link(path)
        write_whole(path, sealed(save(tensors, metadata={"sdi": json.dumps(meta)})))

    @classmethod
    def load(cls, path: Path, of: Mapping[str, Any], size: int, remedy: str) -> Index:
        """Read a file; refused if it is no index, was altered, or is not of what `of` says.

        of: as `describe` gives. size: the length of vectors. remedy: how to make it anew, for messages.
        """
        if not path.is_file():
            raise StoreError(f"{path} is not there: no index has been built; {remedy}")
        altered = StoreError(f"{path} is not an index of sdi, or was truncated or altered; {remedy}")
        try:
            with path.open("rb") as file:
                head = file.read(8)
                length = int.from_bytes(head, "little")
                if length > path.stat().st_size:
                    raise altered
                head += file.read(length)
                meta = json.loads(json.loads(head[8:])["__metadata__"]["sdi"])
                if not is_whole(head, meta["sha256"], iter(lambda: file.read(1 << 22), b"")):
                    raise altered
            if type(meta["version"]) is not int or meta["version"] != VERSION:
                raise StoreError(f"{path} has version {meta['version']!r}, this sdi reads version {VERSION}; {remedy}")
            if set(meta) != KEYS or meta["kind"] not in KINDS:
                raise altered
            for name, now in of.items():
                if meta["of"].get(name) != now:
                    raise StoreError(f"{path} is stale: it is of {WORDS[name]} than what is asked for; {remedy}")
            with safe_open(path, framework="np") as found:
                arrays = {name: found.get_tensor(name) for name in found.keys()}  # noqa: SIM118
            digests = arrays.pop(DIGESTS)
        except (SafetensorError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            if isinstance(error, StoreError):
                raise
            raise altered from None
        n = of["examples"]
        for wrong in check_structure(meta["kind"], arrays, n, size):
            raise StoreError(f"{path} is not an index of sdi: {wrong}; {remedy}")
        if digests.shape != (n, len(of["checkpoints"]), DIGEST) or digests.dtype != np.uint8:
            raise StoreError(f"{path} is not an index of sdi: it lacks digests of rows; {remedy}")
        return cls(str(meta["kind"]), arrays, digests, meta["of"])


WORDS = {
    "store": "another store, or one that was begun anew,",
    "checkpoints": "other checkpoints",
    "etas": "other etas",
    "train_steps": "other training steps",
    "examples": "more or fewer training examples",
    "ids": "other training examples",
}


def describe(
    store: Store, checkpoints: Sequence[Checkpoint], ids: Sequence[str], train_steps: tuple[int, int] | None
) -> dict[str, Any]:
    """What an index is of, as JSON values. ids: of the training examples, in the order in which they are stored."""
    return {
        "store": sha256(store.path / "manifest.json"),
        "checkpoints": [[c.key, c.fingerprint] for c in checkpoints],
        "etas": [[c.eta_of(b.name) for b in store.blocks] for c in checkpoints],
        "train_steps": None if train_steps is None else list(train_steps),
        "examples": len(ids),
        "ids": hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest(),
    }


def index_path(store: Store, train_steps: tuple[int, int] | None) -> Path:
    """Where a store's index is: one of whole training examples, and one for each range of their steps."""
    steps = "" if train_steps is None else f"-steps-{train_steps[0]}-{train_steps[1]}"
    return store.path / f"index{steps}.safetensors"


def row_digest(part: Mapping[str, Array], row: int) -> bytes:
    """A digest of a row of a shard: of all that is decoded of it. part: the mapped arrays, by name."""
    digest = hashlib.blake2b(digest_size=DIGEST)
    for name in ("values", "values.scale", "outside", "outside.scale", "scale"):
        if name in part:
            x = part[name][row]
            digest.update(f"{name} {x.dtype.str} {x.shape};".encode())
            digest.update(x.tobytes())
    return digest.digest()
