"""examples/looped_lm runs from nothing to an answer, and its config says the same as its script."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_cases import call_json
from paths import ROOT

import sdi

EXAMPLE = ROOT / "examples" / "looped_lm"


@pytest.mark.slow
def test_the_example_trains_and_answers(tmp_path: Path) -> None:
    place = Path(shutil.copytree(EXAMPLE, tmp_path / "mine", ignore=shutil.ignore_patterns("runs", "training")))
    command = [sys.executable, "looped_lm.py", "--steps", "12"]
    said = subprocess.run(command, cwd=place, capture_output=True, text=True)
    assert said.returncode == 0, said.stderr
    assert 'loop:  sdi.Loop(body=["inject", "block"], step="inject")' in said.stdout
    assert "calls: embed → (inject → block) × 6 → norm → head" in said.stdout
    assert "which documents?" in said.stdout
    assert len(list((place / "training").glob("step-*.pt"))) == 3
    assert all(0 < point.eta < 3e-3 for point in sdi.find_checkpoints(place / "training" / "step-*.pt"))
    again = call_json("run", place / "config.toml")
    assert (again["made"], again["sizes"]["query"], again["sizes"]["step"]) == (0, 46, 6)
    options = ("--query", "question[30]", "--steps", "4-6", "--by-group", place / "runs" / "documents.csv")
    (top,) = call_json("top", place / "runs" / "question", *options)
    assert {row["group"] for row in top["rows"]} == {file.stem for file in (EXAMPLE / "texts").glob("*.txt")}


def test_the_example_imports_nothing_but_the_public_face() -> None:
    tree = ast.parse((EXAMPLE / "looped_lm.py").read_text())
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    taken = {(n.module, a.name) for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) for a in n.names}
    assert {name for name in named if name.startswith("sdi")} == {"sdi"}
    assert {pair for pair in taken if str(pair[0]).startswith("sdi")} == {("sdi", "lm")}
