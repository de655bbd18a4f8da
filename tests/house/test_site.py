"""The site: pages are in its menu; those of the theory and the comparison are what checks and runs say."""

from __future__ import annotations

import json
import re
import sys

from paths import ROOT

sys.path.insert(0, str(ROOT / "docs" / "make"))
import api
import peer_cells
import theory


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


def test_a_list_of_arguments_is_told_from_prose() -> None:
    assert api.listed("k: how many. query, train: ids.", {"k", "query", "train"}) == (
        "- `k`: how many.\n- `query, train`: ids."
    )
    assert api.listed("Note: k is a number.", {"k"}) == "Note: k is a number."
