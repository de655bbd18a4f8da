"""The .metadata of a torch.distributed.checkpoint (DCP) folder, read without running code: what is in which bytes.

It is a pickle. The unpickler here knows nothing but inert stand-ins for the classes that DCP writes: whatever else the
pickle names is refused, and nothing of it is imported or called. The pieces of tensors that it points to are read as
tensors only, after it was checked that the bytes are there.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sdi.inputs.checkpoint_formats.torch_archive import load_torch

METADATA = ".metadata"
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "complex128", "complex64", "bool",
    "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8",
)  # fmt: skip
KNOWN = {  # all that a pickle may name; each becomes a `_Record`
    *(("torch.distributed.checkpoint.metadata", name) for name in (
        "Metadata", "TensorStorageMetadata", "TensorProperties", "ChunkStorageMetadata", "BytesStorageMetadata",
        "MetadataIndex", "StorageMeta", "_MEM_FORMAT_ENCODING")),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch.serialization", "_get_layout"),
    ("torch", "Size"),
    *(("torch", name) for name in DTYPES),
    *((place, f"{kind}Path") for place in ("pathlib", "pathlib._local") for kind in ("Posix", "Windows")),
}  # fmt: skip

Place = tuple[Any, ...]  # the keys that lead to an entry in the dict that was saved


@dataclass(frozen=True)
class Piece:
    """Bytes of a file: a part of a tensor at `start` of shape `shape`, or an object."""

    file: str
    offset: int
    length: int
    start: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()


@dataclass(frozen=True)
class Entry:
    """A tensor of some shape and dtype in pieces, or an object (dtype "") in one."""

    folder: Path
    name: str
    pieces: tuple[Piece, ...]
    shape: tuple[int, ...] = ()
    dtype: str = ""

    @property
    def is_tensor(self) -> bool:
        return bool(self.dtype)

    def read(self) -> Any:
        """The object; or the tensor, put together from pieces that have the shapes and the type of .metadata."""
        import torch

        parts = (_load_piece(self.folder, piece) for piece in self.pieces)
        if not self.is_tensor:
            return next(parts)
        dtype = getattr(torch, self.dtype)
        whole = torch.empty(self.shape, dtype=dtype)
        filled = torch.zeros(self.shape, dtype=torch.bool)
        for piece, part in zip(self.pieces, parts, strict=True):
            got = (tuple(part.shape), part.dtype) if isinstance(part, torch.Tensor) else type(part).__name__
            if got != (piece.shape, dtype):
                raise ValueError(
                    f"checkpoint {self.folder / piece.file} does not hold what {METADATA} says: a piece of "
                    f"{self.name!r} must be {(piece.shape, dtype)}, got {got}"
                )
            region = tuple(slice(i, i + k) for i, k in zip(piece.start, piece.shape, strict=True))
            if filled[region].any():  # the pieces have as many numbers as the whole: where two overlap, others lack
                raise ValueError(
                    f"checkpoint {self.folder / METADATA} cannot be used: two pieces of {self.name!r} overlap"
                )
            whole[region], filled[region] = part, True
        return whole


def read_layout(folder: Path) -> dict[Place, Entry]:
    """Which tensors and objects a folder holds, by their places in the dict that was saved, and where their bytes are.

    ValueError if .metadata names anything that DCP does not write, or bytes that are not there.
    """
    path = folder / METADATA
    try:
        with path.open("rb") as file:
            found = _Reader(file).load()
        return _layout(folder, _fields(found, "Metadata"))
    except _Refused as error:
        raise ValueError(
            f"checkpoint {path} is refused, because it names {error}, which torch.distributed.checkpoint does not "
            "write and which could run code when loaded; save the checkpoint anew"
        ) from None
    except Exception as error:  # of any kind: the file may hold any bytes
        words = "" if isinstance(error, _Odd) else f"{type(error).__name__}: "
        raise ValueError(f"checkpoint {path} cannot be used: {words}{str(error)[:200]}") from None


def _load_piece(folder: Path, piece: Piece) -> Any:
    path = folder / piece.file
    with path.open("rb") as file:
        file.seek(piece.offset)
        content = file.read(piece.length)
    return load_torch(path, content)


def _layout(folder: Path, metadata: Mapping[str, Any]) -> dict[Place, Entry]:
    stored: dict[tuple[str, tuple[int, ...] | None], tuple[str, int, int]] = {}
    for key, info in metadata["storage_data"].items():
        index, where = _fields(key, "MetadataIndex"), _fields(info, "_StorageInfo")
        if where.get("transform_descriptors"):
            raise _Odd(f"its pieces are transformed by {where['transform_descriptors']}, which is not supported")
        start = None if index.get("offset") is None else _size(index["offset"])
        stored[_text(index["fqn"]), start] = _check_bytes(folder, where)
    places: Mapping[str, Any] = metadata.get("planner_data") or {}
    layout: dict[Place, Entry] = {}
    for name, meta in metadata["state_dict_metadata"].items():
        place = tuple(places.get(name, (_text(name),)))
        if place in layout or not place or not all(isinstance(key, (str, int)) for key in place):
            raise _Odd(f"the place of {name!r} is {place!r}")
        if meta.kind == "BytesStorageMetadata":
            layout[place] = Entry(folder, name, (Piece(*stored[name, None]),))
            continue
        tensor = _fields(meta, "TensorStorageMetadata")
        dtype = tensor["properties"].state[0].kind
        chunks = [_fields(chunk, "ChunkStorageMetadata") for chunk in tensor["chunks"]]
        spots = [(_size(chunk["offsets"]), _size(chunk["sizes"])) for chunk in chunks]
        pieces = [Piece(*stored[name, start], start, shape) for start, shape in spots]
        layout[place] = _checked(Entry(folder, name, tuple(pieces), _size(tensor["size"]), dtype))
    return layout


def _check_bytes(folder: Path, where: Mapping[str, Any]) -> tuple[str, int, int]:
    """The file, offset and length of a piece: a file in the folder itself that has these bytes."""
    name, offset, length = _text(where["relative_path"]), _count(where["offset"]), _count(where["length"])
    path = folder / name
    if Path(name).name != name or not path.is_file():
        raise _Odd(f"it names {name!r}, which is not a file in its folder")
    if path.stat().st_size < offset + length:
        raise _Odd(f"{name} was truncated: it has {path.stat().st_size} bytes, and should have {offset + length}")
    return name, offset, length


def _checked(entry: Entry) -> Entry:
    """Pieces must lie within the tensor, have its numbers in all, and each no more than its bytes can hold."""
    if entry.dtype not in DTYPES:
        raise _Odd(f"{entry.name!r} is of type {entry.dtype!r}")
    for piece in entry.pieces:
        sides = zip(piece.start, piece.shape, entry.shape, strict=True)
        if any(i + k > n for i, k, n in sides) or math.prod(piece.shape) > piece.length:
            raise _Odd(f"a piece of {entry.name!r} at {piece.start} of shape {piece.shape} has no room")
    numbers = sum(math.prod(piece.shape) for piece in entry.pieces)
    if numbers != math.prod(entry.shape):
        raise _Odd(
            f"the pieces of {entry.name!r} have {numbers} numbers, not the {math.prod(entry.shape)} of its shape"
        )
    return entry


class _Refused(Exception):
    """A name in a pickle that is not in KNOWN."""


class _Odd(Exception):
    """What is wrong with .metadata."""


class _Record:
    """A stand-in for what a pickle names: keeps the arguments and the state that it is given, and does nothing."""

    kind = ""
    args: tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *args: Any) -> None:
        self.args = args

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Reader(pickle.Unpickler):
    """Unpickles with stand-ins for the names in KNOWN, and refuses all others."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in KNOWN:
            raise _Refused(f"{module}.{name}")
        return type(name, (_Record,), {"kind": name})


def _fields(record: Any, kind: str) -> Mapping[str, Any]:
    if not isinstance(record, _Record) or record.kind != kind or not isinstance(record.state, dict):
        raise TypeError(f"expected {kind}, got {record!r:.80}")
    return record.state


def _size(value: Any) -> tuple[int, ...]:
    """A torch.Size, which is pickled as a call with one tuple."""
    if not isinstance(value, _Record) or value.kind != "Size":
        raise TypeError(f"expected Size, got {value!r:.80}")
    return tuple(_count(n) for n in (value.args[0] if value.args else ()))


def _count(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError(f"expected a number of bytes or rows, got {value!r:.80}")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a name, got {value!r:.80}")
    return value
