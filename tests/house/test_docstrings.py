"""Docstrings: their examples are true, and those of public functions describe every argument.

Examples in sdi/ pytest finds itself; those of the rooms it would find under bare names.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path
from types import FunctionType

import pytest
from paths import ROOMS, ROOT
from test_public_names import packages


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


def public_functions() -> dict[str, FunctionType]:
    """Every function that a folder's `__all__` names."""
    found = {
        f"{package}.{name}": getattr(importlib.import_module(package), name)
        for package in packages()
        for name in getattr(importlib.import_module(package), "__all__", ())
    }
    return {name: f for name, f in found.items() if isinstance(f, FunctionType)}


def not_described(f: FunctionType) -> list[str]:
    """The arguments that a docstring does not mention before its example."""
    prose = (f.__doc__ or "").partition(">>>")[0]
    return [name for name in inspect.signature(f).parameters if not re.search(rf"\b{name}\b", prose)]


@pytest.mark.parametrize("name", public_functions())
def test_public_functions_describe_every_argument(name: str) -> None:
    assert not_described(public_functions()[name]) == []


def test_an_argument_that_is_not_described_is_found() -> None:
    def score(train, query):  # type: ignore[no-untyped-def]
        """Scores of train.

        >>> query = 1
        """

    assert not_described(score) == ["query"]
