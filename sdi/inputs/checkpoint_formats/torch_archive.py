"""torch_archive: load what torch.save wrote, tensors only, and check that every storage is as long as they need.

`torch.load` takes a storage's size from the pickle and its bytes from where the member begins, mapped or not: a member
that is compressed is mapped as it stands, one that is too short is read beyond its end. So both are looked at here.
"""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import IO, Any

ELEMENT_BYTES = {  # of torch's typed storages; other types are saved as UntypedStorage
    1: ("Untyped", "Byte", "Char", "Bool", "QInt8", "QUInt8", "QUInt4x2", "QUInt2x4"),
    2: ("Short", "Half", "BFloat16"),
    4: ("Int", "Float", "QInt32"),
    8: ("Long", "Double", "ComplexFloat"),
    16: ("ComplexDouble",),
}
PICKLES = (b"\x80", b"(", b"c", b"}", b"]", b")")  # how a file begins that is a pickle; what is in it, torch looks at


def load_torch(path: Path, part: bytes | None = None) -> Any:
    """What torch.save wrote to a file, or to a part of it, if it is nothing but tensors and plain containers.

    part: the bytes of the part, whose checksums are looked at; None: the whole file. Tensors of a whole file are memory
    maps where they can be.
    """
    import torch

    def source() -> Any:
        return path if part is None else BytesIO(part)

    with path.open("rb") as file:
        head = file.read(8) if part is None else part[:8]
    if b"PK".startswith(head[:2]) and not _is_zip(source()):
        raise ValueError(f"checkpoint {path} cannot be read: it was truncated")
    if not head.startswith((b"PK", *PICKLES)):
        raise ValueError(
            f"checkpoint {path} cannot be read: it begins with {head!r}, so torch.save did not write it; save the "
            "state dict with torch.save, or as .safetensors"
        )
    try:
        with warnings.catch_warnings():  # of protocols and layouts: what matters is what comes out
            warnings.simplefilter("ignore")
            if part is not None:
                _check_sums(part)
            mapped = part is None and is_mappable(path)
            content = torch.load(source(), map_location="cpu", weights_only=True, mmap=mapped)
        check_storages(source())  # before any number is read
    except Exception as error:  # of any kind: the file may hold any bytes
        words = " ".join(str(error).split())
        # torch wraps its reason in advice to switch the protection off.
        reason = re.split("trusted source. |WeightsUnpickler error: ", words)[-1]
        reason = re.split(" Please | Check ", reason)[0][:200]
        if isinstance(error, pickle.UnpicklingError) and re.search("unsupported|GLOBAL|blocked", words, re.IGNORECASE):
            raise ValueError(
                f"checkpoint {path} is refused, because it holds more than tensors and could run code when loaded; "
                f"save the state dict alone, best as safetensors ({reason})"
            ) from None
        raise ValueError(f"checkpoint {path} cannot be read, it may be truncated: {reason}") from None
    return content


def _check_sums(part: bytes) -> None:
    """Raise ValueError where a member's bytes do not have its CRC-32, which torch.load does not look at."""
    if zipfile.is_zipfile(BytesIO(part)):
        with zipfile.ZipFile(BytesIO(part)) as file:
            harmed = file.testzip()
        if harmed is not None:
            raise ValueError(f"{harmed} has another checksum than when it was saved")


def _is_zip(source: Any) -> bool:
    try:
        return zipfile.is_zipfile(source)
    except zipfile.BadZipFile:  # one that says it goes on in another file
        return False


def is_mappable(path: Path) -> bool:
    """Whether the file is a zip whose members are neither compressed nor encrypted, so that mmap=True reads them."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as file:
        return all(
            m.compress_type == zipfile.ZIP_STORED and m.file_size == m.compress_size and not m.flag_bits & 1
            for m in file.infolist()
        )


def check_storages(path: Path | IO[bytes]) -> None:
    """Raise ValueError for a zip with two members of one name, or with a storage shorter than its tensors need."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as file:
        twice = [name for name, times in Counter(file.namelist()).items() if times > 1]
        if twice:
            raise ValueError(f"it has two members {twice[0]!r}")
        sizes = {member.filename: member.file_size for member in file.infolist()}
        for name in [name for name in sizes if name.count("/") == 1 and name.endswith("/data.pkl")]:
            with file.open(name) as content:
                needed = _storage_bytes(content)
            for key, most in needed.items():
                member = f"{name.removesuffix('.pkl')}/{key}"
                if sizes.get(member, -1) < most:
                    raise ValueError(f"{member} holds {sizes.get(member, 0)} bytes, its tensors need {most}")


def _storage_bytes(file: Any) -> dict[str, int]:
    """Bytes needed of each storage, by key, as a torch pickle states them; no class or function it names is loaded."""
    scan = _Scan(file)
    scan.load()
    return scan.needed


class _Inert:
    """A stand-in for every class and function that a pickle names: accepts any arguments and does nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __setstate__(self, state: Any) -> None: ...

    def __setitem__(self, key: Any, value: Any) -> None: ...

    def append(self, value: Any) -> None: ...

    def extend(self, values: Any) -> None: ...

    def add(self, value: Any) -> None: ...


class _Scan(pickle.Unpickler):
    def __init__(self, file: Any) -> None:
        super().__init__(file)
        self.needed: dict[str, int] = {}

    def find_class(self, module: str, name: str) -> Any:
        return type(name, (_Inert,), {})

    def persistent_load(self, pid: Any) -> Any:
        _, kind, key, _, numbers = pid
        self.needed[str(key)] = max(self.needed.get(str(key), 0), int(numbers) * _element_bytes(kind.__name__))
        return _Inert()


def _element_bytes(storage: str) -> int:
    """Bytes per element, from the name of a storage's class: "FloatStorage" -> 4, "UntypedStorage" -> 1."""
    kind = storage.removesuffix("Storage")
    size = next((size for size, kinds in ELEMENT_BYTES.items() if kind in kinds), None)
    if size is None:
        raise ValueError(f"a storage must be one of {ELEMENT_BYTES}, got {storage!r}")
    return size
