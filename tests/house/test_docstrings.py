"""Examples in docstrings are true. Those of sdi/ pytest finds itself; the rooms would be found under bare names."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest
from paths import ROOMS, ROOT


def modules_with_examples() -> list[str]:
    paths = [path.relative_to(ROOT) for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return [".".join(("sdi", *p.with_suffix("").parts)) for p in paths if has_examples(ROOT / p)]


def has_examples(path: Path) -> bool:
    return re.search(r"^ *>>> ", path.read_text(), re.MULTILINE) is not None


@pytest.mark.parametrize("name", modules_with_examples())
def test_examples_in_docstrings_are_true(name: str) -> None:
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted
    assert not found.failed
