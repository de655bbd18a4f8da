"""The site: pages are in its menu, the theory's page is current, every public name is described with an example."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys

import pytest
from paths import ROOT

import sdi

sys.path.insert(0, str(ROOT / "docs" / "make"))
import api
import peer_cells
import theory
from test_readme import APART, PAGES

NAMES = [(package, name) for package in api.PACKAGES for name in importlib.import_module(package).__all__]


def test_the_page_of_the_theory_is_what_the_checks_say() -> None:
    page = theory.page()
    assert (ROOT / "docs" / "theory.md").read_text() == page, "run python docs/make/theory.py"
    assert len(re.findall(r"\]\(\.\./proofs_checks/", page)) > 80


def test_the_comparison_says_what_was_run() -> None:
    record = json.loads((ROOT / "docs" / "results" / "comparison.json").read_text())
    assert peer_cells.table(record) in (ROOT / "docs" / "comparison.md").read_text()
    assert {peer["release"] for peer in record["peers"].values()} - {"this checkout"} == set(
        peer_cells.RELEASES.values()
    ) - {""}
    for release in filter(None, peer_cells.RELEASES.values()):
        assert f"\n| {release.replace('==', ' ')}" in (ROOT / "docs" / "comparison.md").read_text()


def test_every_page_is_in_the_menu() -> None:
    menu = set(re.findall(r"[\w/.-]+\.md", (ROOT / "mkdocs.yml").read_text()))
    assert {p.name for p in (ROOT / "docs").glob("*.md")} == {name for name in menu if "/" not in name}
    assert {f"api/{package}.md" for package in api.PACKAGES} <= menu


@pytest.mark.parametrize(("package", "name"), NAMES, ids=[".".join(pair) for pair in NAMES])
def test_every_public_name_is_summarised_in_one_line(package: str, name: str) -> None:
    thing = getattr(importlib.import_module(package), name)
    if not callable(thing):
        return
    first = (inspect.getdoc(thing) or "").split("\n\n")[0]
    assert first
    assert not first.startswith(f"{name}("), "a dataclass without a docstring of its own"
    assert f"## {package}.{name}" in api.api_page(package)


@pytest.mark.parametrize("name", sdi.__all__)
def test_every_name_of_the_face_has_an_example_that_runs(name: str) -> None:
    """In its docstring, which pytest runs, or in a block of a page, which test_readme runs."""
    documented = ">>>" in (inspect.getdoc(getattr(sdi, name)) or "")
    assert documented or api.examples_of("sdi", name)
    run = {page.removeprefix("docs/").removesuffix(".md") for page in (*PAGES, *APART)}
    assert set(api.PAGES) <= run


def test_a_list_of_arguments_is_told_from_prose() -> None:
    assert api.listed("k: how many. query, train: ids.", {"k", "query", "train"}) == (
        "- `k`: how many.\n- `query, train`: ids."
    )
    assert api.listed("Note: k is a number.", {"k"}) == "Note: k is a number."
