"""How sdi-bench ends: bad files are refused before the clock starts, a user's bug has a place, a stop has a line."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NoReturn

import pytest
from paths import ROOT
from typer.testing import CliRunner

from sdi.bench import cli
from sdi.bench.commands import fidelity, kernels, memory

BOOM = """
from sdi.sketch.shipped.rademacher import RademacherSketch

class Boom(RademacherSketch):
    @classmethod
    def draw(cls, *given, **named):
        raise {error}("my bug")
"""


def said(code: int, *arguments: object) -> str:
    found = CliRunner().invoke(cli.app, [str(a) for a in arguments])
    assert found.exit_code == code, found.output + repr(found.exception)
    return found.stderr


@pytest.mark.parametrize("command", ["fidelity", "memory", "kernels"])
@pytest.mark.parametrize("option", ["--json", "--plot"])
@pytest.mark.parametrize("name", [".", "d.png"])
def test_a_folder_in_the_place_of_a_file_is_refused_before_anything(
    command: str, option: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.png").mkdir()
    reason = f"sdi-bench: {option} must be a file, got the folder {name}\n"
    assert said(2, command, "--quick", option, name) == reason  # nor any progress
    assert [path.name for path in tmp_path.rglob("*")] == ["d.png"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [(["report", "r.json", "--out", "f"], "--out must be a folder"), (["stream", "--folder", "f"], "--folder must be")],
)
def test_a_file_in_the_place_of_a_folder_is_refused(
    arguments: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "f").touch()
    assert reason in said(2, *arguments)


@pytest.mark.parametrize("error", ["RuntimeError", "ZeroDivisionError"])
def test_a_bug_in_a_sketch_of_ones_own_has_its_file_line_and_class(error: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.py"
    file.write_text(BOOM.format(error=error))
    words = said(2, "variants", "--quick", "--sketch", f"{file}:Boom")
    assert words == f"sdi-bench: {file}, line 7, in draw(): {error}: my bug\n"


def stop(*given: Any, **named: Any) -> NoReturn:
    raise KeyboardInterrupt


def test_a_stopped_command_says_whether_it_can_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "measure_kernels", stop)
    assert said(130, "kernels", "--quick") == "sdi-bench: stopped\n"
    for command, module in (("fidelity", fidelity), ("memory", memory)):
        monkeypatch.setattr(module, f"measure_{command}", stop)
        kept = said(130, command, "--quick", "--json", tmp_path / "a.json")
        assert kept == "sdi-bench: stopped; the same command with the same --json goes on where it was\n"
        assert said(130, command, "--quick").startswith("sdi-bench: stopped; nothing was kept: with --json FILE")


@pytest.mark.slow
def test_the_command_itself_is_loaded_without_torch() -> None:
    """So that --help is quick, and a stop during the seconds of its import is caught as any other."""
    code = "import sys, sdi.bench.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.slow
def test_the_help_and_the_guide_promise_the_same_minutes() -> None:
    guide = (ROOT / "docs" / "benchmarks.md").read_text()
    row = next(line for line in guide.splitlines() if line.startswith("| `sdi-bench fidelity --paper`"))
    minutes = re.search(r"(\d+) minutes", row)
    assert minutes is not None
    helped = CliRunner().invoke(cli.app, ["fidelity", "--help"], env={"COLUMNS": "200"}).output
    assert re.findall(r"(\d+)\s+minutes", helped) == [minutes[1]]
