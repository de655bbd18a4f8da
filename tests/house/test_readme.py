"""What README.md and docs/ show does run: Python blocks in their order, commands against the command itself."""

from __future__ import annotations

import re
import shlex

import pytest
import typer
from paths import ROOT
from typer.testing import CliRunner

from sdi.cli import app
from sdi.inputs.config import KEYS, read_config

PAGES = (
    "docs/index.md", "docs/cluster.md", "README.md", "docs/guide.md", "docs/steps.md", "docs/error-bars.md",
    "docs/reading.md", "docs/language-models.md", "docs/retraining.md", "docs/objects.md", "docs/store.md",
    "docs/retrieval.md",
)  # fmt: skip
APART = ("docs/new-sketch.md",)  # its blocks run by themselves: test_new_sketch_guide.py
SITE = sorted(p.relative_to(ROOT).as_posix() for p in (ROOT / "docs").rglob("*.md"))
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)


def test_the_readme_begins_with_the_two_commands():
    first = (ROOT / "README.md").read_text().splitlines()
    assert [line.split("#")[0].strip() for line in first[1:3]] == ["make demo", "make test"]
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:", makefile, flags=re.M)
    assert re.search(r"^test:", makefile, flags=re.M)


@pytest.mark.slow
def test_every_python_block_runs(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    pytest.importorskip("xarray")
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "readme"}
    count = 0
    for page in PAGES:
        for block in blocks(page, "python"):
            exec(compile(block, f"{page}, block {count}", "exec"), scope)
            count += 1
    assert count >= 10
    said = capsys.readouterr().out
    assert "query q-2, steps 4 to 6 of 6" in said
    assert "2 parameters, 6 steps" in said
    assert (tmp_path / "trajectory.png").stat().st_size > 0
    lines = blocks("docs/index.md", "shell")[0].splitlines()
    line = next(line for line in lines if line.startswith("sdi top first"))
    assert CliRunner().invoke(app, shlex.split(line, comments=True)[1:]).exit_code == 0


def commands() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "shell") for line in block.splitlines()]
    text = [s for page in PAGES for s in re.findall(r"`(sdi [a-z][^`]*)`", (ROOT / page).read_text())]
    return sorted({line.split("#")[0].strip() for line in lines + text})


@pytest.mark.parametrize("line", commands())
def test_every_command_exists_with_its_options(line):
    words = shlex.split(line)
    command = typer.main.get_command(app)
    assert words[0] == "sdi"
    assert words[1] in command.commands
    known = {name for p in command.commands[words[1]].params for name in p.opts}
    assert {word for word in words[2:] if word.startswith("-")} <= known


def test_the_guides_config_names_every_key_and_can_be_read(tmp_path):
    (toml,) = blocks("docs/guide.md", "toml")
    (tmp_path / "c.toml").write_text(toml)
    (tmp_path / "task.py").write_text("")
    read_config(tmp_path / "c.toml")
    assert set(re.findall(r"^(\w+) =", toml, flags=re.M)) == set(KEYS)


def test_the_example_is_a_config_that_can_be_read():
    config = read_config(ROOT / "examples/parity/config.toml")
    assert config.loop.body == ("core", "loop_norm")


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as mkdocs names them."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    heads = re.findall(r"^#+ (.*)$", text, flags=re.M)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


def dead_links(page: str) -> list[str]:
    """Links of a page that lead to no file of the repository, or to no heading of it."""
    dead = []
    for target, anchor in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        found = (ROOT / page).parent.joinpath(target).resolve() if target else ROOT / page
        known = found.exists() and found.is_relative_to(ROOT)
        heads = anchors(found.relative_to(ROOT).as_posix()) if known and anchor and found.suffix == ".md" else {anchor}
        if not known or anchor not in heads:
            dead.append(f"{target}#{anchor}")
    return dead


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *SITE])
def test_links_lead_to_files_and_headings(page):
    assert dead_links(page) == []


def test_a_dead_link_is_found(tmp_path, monkeypatch):
    (tmp_path / "a.md").write_text("# A b\n[x](a.md#a-b) [y](b.md) [z](#c) [w](https://no.where)")
    monkeypatch.setitem(dead_links.__globals__, "ROOT", tmp_path)
    assert dead_links("a.md") == ["b.md#", "#c"]


def test_every_page_with_python_is_run():
    with_python = {page for page in SITE if blocks(page, "python") and not page.startswith("docs/results/")}
    assert with_python == {*PAGES, *APART} - {"README.md"}


def test_the_readme_shows_a_picture_before_it_explains():
    text = (ROOT / "README.md").read_text()
    assert text.index("](docs/pictures/") < text.index("## ")
    assert len(text.split()) <= 1084  # half of what it had
