"""Docstrings: their examples are true, and public names have a summary, arguments, returns, shapes and an example.

Examples in sdi/ pytest finds itself; those of the rooms it would find under bare names.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from paths import ROOMS, ROOT
from test_public_names import packages

sys.path.insert(0, str(ROOT / "docs" / "make"))
import api
from test_readme import APART, PAGES

REFERENCE = {
    f"{p}.{name}": getattr(importlib.import_module(p), name)
    for p in api.PACKAGES
    for name in importlib.import_module(p).__all__
}
CLASSES = {name: thing for name, thing in REFERENCE.items() if inspect.isclass(thing)}
ELSEWHERE = {
    "sdi.lm.checkpoint_callback": "tests/models/test_trainer.py"
}  # needs packages that few have: its test runs it


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


def summary_wrong(thing: Any) -> str:
    """What is wrong with the first paragraph of a docstring, which must be one line of our own."""
    first = (inspect.getdoc(thing) or "").split("\n\n")[0]
    made = inspect.isclass(thing) and first.startswith(f"{thing.__name__}(")  # by dataclass
    return "none" if not first or made else "several lines" if "\n" in first else ""


def shapes_not_said(f: FunctionType) -> list[str]:
    """The shapes of arguments and of what is returned, by their annotations, that a docstring does not say."""
    said = inspect.signature(f)
    wanted = [shape for p in said.parameters.values() for shape in api.shapes_of(p.annotation)]
    return [shape for shape in wanted + api.shapes_of(said.return_annotation) if shape not in (f.__doc__ or "")]


def says_what_it_returns(f: FunctionType) -> bool:
    return (
        str(inspect.signature(f).return_annotation) == "None" or re.search(r"\bReturns\b", f.__doc__ or "") is not None
    )


def has_an_example(name: str, thing: Any) -> bool:
    """In its docstring or a method's, which the tests run, or in a block of a page, which test_readme runs."""
    parts = [thing, *(vars(thing).values() if inspect.isclass(thing) else ())]
    package, _, own = name.rpartition(".")
    return any(">>>" in (getattr(api.inner_of(part), "__doc__", "") or "") for part in parts) or bool(
        api.examples_of(package, own)
    )


def members_not_described(owner: type) -> list[str]:
    """Fields without a word in the docstring or behind them, and methods without a docstring, their own or a base's."""
    doc = inspect.getdoc(owner) or ""
    fields = [name for name, words in api.fields_of(owner).items() if not words and not re.search(rf"\b{name}\b", doc)]
    shown = [key for key, value in vars(owner).items() if api.is_shown(key, value)]
    return [name for name in fields if name[0] != "_"] + [
        key for key in shown if " — " not in api.member(owner, key, vars(owner)[key])
    ]


@pytest.mark.parametrize("name", [name for name, thing in REFERENCE.items() if callable(thing)])
def test_every_name_of_the_reference_is_summarised_in_one_line_and_has_an_example(name: str) -> None:
    assert summary_wrong(REFERENCE[name]) == ""
    assert has_an_example(name, REFERENCE[name]) or name.rpartition(".")[2] in (ROOT / ELSEWHERE[name]).read_text()
    package = name.rpartition(".")[0]
    assert f"## {name}\n" in api.api_page(package)


@pytest.mark.parametrize("name", [name for name, thing in REFERENCE.items() if isinstance(thing, FunctionType)])
def test_functions_of_the_reference_say_what_they_return_and_its_shape(name: str) -> None:
    f = REFERENCE[name]
    assert says_what_it_returns(f)
    assert shapes_not_said(f) == []
    assert not_described(f) == []


@pytest.mark.parametrize("name", CLASSES)
def test_classes_of_the_reference_describe_their_fields_and_methods(name: str) -> None:
    assert members_not_described(CLASSES[name]) == []


def test_pages_that_examples_are_looked_for_on_are_run() -> None:
    assert set(api.PAGES) <= {page.removeprefix("docs/").removesuffix(".md") for page in (*PAGES, *APART)}


def test_what_a_docstring_lacks_is_found() -> None:
    def tracin(g_train: "Float[Array, 'n d']") -> "Float[Array, 'n q']":  # type: ignore[name-defined]  # noqa: F821
        """Influence,
        in two lines, of g_train (n, d).
        """

    class Empty:
        def score(self) -> None: ...

    assert summary_wrong(tracin) == "several lines"
    assert summary_wrong(Empty) == "none"
    assert shapes_not_said(tracin) == ["(n, q)"]
    assert not says_what_it_returns(tracin)
    assert not has_an_example("sdi.scores.tracin_of_nothing", tracin)
    assert members_not_described(Empty) == ["score"]
