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

PAGES = ("README.md", "docs/guide.md", "docs/store.md")


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
    lines = blocks("README.md", "shell")[0].splitlines()
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


def test_links_within_the_repository_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / page).read_text()):
            assert (ROOT / page).parent.joinpath(target).exists(), (page, target)
