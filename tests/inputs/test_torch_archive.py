"""Torch files whose tensors are not stored whole: compressed ones are read, short and ambiguous ones refused."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from sdi.inputs.checkpoints import find_checkpoints


def state() -> dict[str, Any]:
    g = torch.Generator().manual_seed(0)
    wide = torch.randn(40, 30, generator=g)
    return {
        "w": wide, "part": wide[3:, 2:], "tied": wide, "half": torch.randn(7, generator=g).half(),
        "b": torch.arange(5), "none": torch.zeros(0), "flag": torch.tensor([True, False]),
    }  # fmt: skip


def rewritten(path: Path, change: Callable[[str, bytes], bytes] = lambda name, x: x, how: int = 0) -> Path:
    """The torch file again, its members changed and stored in another way."""
    with zipfile.ZipFile(path) as old:
        members = [(info.filename, old.read(info)) for info in old.infolist()]
    with zipfile.ZipFile(path, "w", how) as new:
        for name, content in members:
            new.writestr(name, change(name, content))
    return path


def saved(folder: Path) -> Path:
    torch.save(state(), folder / "a.pt")
    return folder / "a.pt"


def weights(path: Path) -> dict[str, Any]:
    return find_checkpoints(path, [0.1])[0].weights()


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_torch_file_that_was_packed_again_holds_the_same_weights(tmp_path: Path, how: int) -> None:
    found = weights(rewritten(saved(tmp_path), how=how))
    assert found.keys() == state().keys()
    for name, tensor in state().items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor)


@pytest.mark.parametrize("how", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("lost", [1, 2, 4799, 4800])
def test_a_tensor_that_is_shorter_in_the_file_than_it_says_is_refused(tmp_path: Path, how: int, lost: int) -> None:
    def shorter(name: str, content: bytes) -> bytes:
        return content[:-lost] if name.endswith("data/0") else content

    path = rewritten(saved(tmp_path), shorter, how)
    with pytest.raises(ValueError, match=r"a.pt cannot be read, it may be truncated: "):
        weights(path)
    with pytest.raises(ValueError, match=r"a.pt cannot be read"):  # for its eta
        find_checkpoints(path)


def test_a_tensor_that_is_missing_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with zipfile.ZipFile(path) as old:
        members = [(i.filename, old.read(i)) for i in old.infolist() if not i.filename.endswith("data/0")]
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members:
            new.writestr(name, content)
    with pytest.raises(ValueError, match=r"a.pt cannot be read, it may be truncated: .*data/0"):
        weights(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_file_with_two_members_of_one_name_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with zipfile.ZipFile(path, "a") as file:
        name = next(n for n in file.namelist() if n.endswith("data/0"))
        file.writestr(name, bytes(4800))
    with pytest.raises(ValueError, match=r"a.pt cannot be read, it may be truncated: it has two members .*data/0"):
        weights(path)


def test_a_tensor_that_reaches_beyond_its_storage_is_refused(tmp_path: Path) -> None:
    def one_less(name: str, content: bytes) -> bytes:
        """The storage of w said to hold 1199 numbers where w has 1200."""
        return content.replace(b"M\xb0\x04", b"M\xaf\x04", 1) if name.endswith("data.pkl") else content

    with pytest.raises(ValueError, match=r"a.pt cannot be read, it may be truncated"):
        weights(rewritten(saved(tmp_path), one_less))


def test_a_file_that_says_it_goes_on_in_another_one_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    ends = b"PK\x06\x07" + struct.pack("<LQL", 0, 0, 2), b"PK\x05\x06" + bytes(18)
    path.write_bytes(b"PK\x03\x04" + bytes(60) + b"".join(ends))
    with pytest.raises(ValueError, match=r"^checkpoint .*/a.pt cannot be read: it was truncated$"):
        weights(path)
