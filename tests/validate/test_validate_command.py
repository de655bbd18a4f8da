"""The command `sdi validate`: what it prints, its exit codes, and what it says to bad input."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import broken_sketches
import good_sketch
import pytest
from first_fault import ENOUGH
from rich.console import Console
from typer.testing import CliRunner

from sdi.cli import app
from sdi.cli.validate import show_report
from sdi.sketch.load import SHIPPED
from sdi.validate import PROPERTIES, validate
from sdi.validate import report as reports
from sdi.validate.compare_shipped import Standing

pytestmark = pytest.mark.slow

BROKEN, GOOD = Path(broken_sketches.__file__), Path(good_sketch.__file__)
runner = CliRunner()


def call(*arguments, code):
    result = runner.invoke(app, ["validate", *map(str, arguments)], env={"COLUMNS": "80"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


@pytest.mark.usefixtures("few_other_sizes")
def test_the_command_prints_one_json_document():
    found = json.loads(call("exact", "--draws", 100, "--json", code=0).stdout)
    assert found["passed"] is True
    assert [f["property"] for f in found["findings"]] == [p.name for p in PROPERTIES]
    assert {row["sketch"] for row in found["standing"]} == set(SHIPPED)
    assert all(row["error"] <= row["claimed"] for row in found["standing"])
    assert (found["seed"], found["shape"], found["m"]) == (0, [8, 6], 16)
    assert any("CUDA" in what for what in found["not_tested"]) or "cuda" in str(found)
    rare = "faults of rare draws, a heavy tail say: none of 100 draws has one of 1 in 5000 with probability 0.98"
    assert found["not_tested"][0].startswith(rare)  # (1 - 1/5000)^100: no claim enters


@pytest.mark.usefixtures("few_other_sizes")
def test_what_does_not_apply_is_shown_and_not_counted():
    said = call(f"{GOOD}:Good", "--draws", ENOUGH, code=0).stdout
    assert "does not apply" in said
    assert "there is no enumerate_all" in said
    assert f"{len(PROPERTIES) - 2} of {len(PROPERTIES) - 2} properties hold" in said


def test_a_sketch_that_fails_is_exit_code_1_and_says_what_to_do():
    said = call(f"{BROKEN}:WrongBytes", code=1).stdout
    assert "FAILS" in said
    assert "nbytes is 0, its tables have 768" in said
    assert "what to do" in said
    assert "rests on protocol" in said
    assert f"0 of {len(PROPERTIES)} properties hold" in said


@pytest.mark.usefixtures("few_other_sizes")
def test_what_is_not_decided_is_exit_code_1_and_names_the_claim(monkeypatch):
    monkeypatch.setattr(reports, "PROPERTIES", [p for p in PROPERTIES if p.name in ("protocol", "scale", "unbiased")])
    said = " ".join(call(f"{BROKEN}:ThreefoldBehindAClaim", "--draws", ENOUGH, code=1).stdout.split())
    assert "NOT DECIDED" in said
    assert "scale is not decided" in said
    assert "the claimed variance is 1e+09" in said
    assert "claim no more in variance_factor()" in said
    assert "rests on scale" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "sketch must be one of"),
        ([f"{GOOD}:Goood"], "did you mean 'Good'"),
        (["tensor", "--shape", "8x6"], "--shape must be rows,columns"),
        (["tensor", "--m", "0"], "m must be at least 1, got 0"),
        (["tensor", "--m", "48"], "shape must have more than m=48 entries, got (8, 6)"),
        (["tensor", "--seed", "-1"], "seed must be from 0 to 1999, got -1"),
        (["tensor", "--draws", "5"], "draws must be from 100 to 100000, got 5"),
    ],
)
def test_bad_input_is_exit_code_2_and_a_line(arguments, message):
    assert message in call(*arguments, code=2).stderr


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_can_be_read_at_any_width(width, capsys):
    rows = [Standing(name, 128, 3_145_728, 0.1, 0.2, 1e-3, 1.0) for name in SHIPPED]
    report = replace(validate(broken_sketches.WrongSize), standing=rows)
    show_report(Console(width=width, highlight=False), report)
    said = capsys.readouterr().out
    assert all(len(line) <= width for line in said.splitlines())
    for p in PROPERTIES:
        assert p.name in said
    assert "…" not in said
    assert "probability at most" in said
