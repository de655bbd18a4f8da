"""`sdi judge`: a script's runs retrained, scores judged, bad input refused in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from paths import TESTS
from typer.testing import CliRunner

from sdi.cli import app

SCRIPT = f"""
import sys
sys.path.insert(0, {str(TESTS / "helpers")!r})
from training_cases import QUERY, make_net, make_run

def run(seed):
    return make_run("sgd", rate=0.02, model=lambda: make_net(seed))

def query():
    return QUERY
"""


@pytest.mark.slow
def test_scores_are_judged_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "task.py").write_text(SCRIPT)
    np.save(tmp_path / "mine.npy", np.random.default_rng(0).normal(size=(12, 3)))
    command = ["judge", str(tmp_path / "task.py"), str(tmp_path / "runs"), "--score", "through-training"]
    command += ["--file", f"mine={tmp_path / 'mine.npy'}", "--groups", "12", "--share", "0.1", "--seeds", "0,1"]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["scores"]["through-training"]["lds"]["value"][0] > 0.9
    assert found["scores"]["mine"]["steps"] is None
    shown = CliRunner().invoke(app, command)
    assert "metasmoothness" in shown.output
    assert "(another seed)" in shown.output
    assert re.search(
        r"lowest LDS in one run: through-training \d\.\d\d \(run [12], (step \d|whole loss)\); mine", shown.output
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "nothing to judge"),
        (["--score", "magic"], "--score must be one of"),
        (["--file", "x.npy"], "--file must be NAME=FILE, got 'x.npy'"),
        (["--score", "tracin", "--groups", "3"], "groups must be at least 10"),
        (["--score", "tracin", "--seeds", "a"], "--seeds must be numbers"),
    ],
)
def test_bad_input_ends_with_code_2(tmp_path: Path, arguments: list[str], words: str) -> None:
    (tmp_path / "task.py").write_text(SCRIPT)
    done = CliRunner().invoke(app, ["judge", str(tmp_path / "task.py"), str(tmp_path / "runs"), *arguments])
    assert done.exit_code == 2
    assert words in done.output
    (tmp_path / "half.py").write_text("def run():\n    pass\n")
    done = CliRunner().invoke(app, ["judge", str(tmp_path / "half.py"), str(tmp_path / "runs")])
    assert "does not define query()" in done.output
