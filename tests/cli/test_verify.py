"""`sdi verify`: a user's own statements, exit codes, and a table that can be read at any width."""

from __future__ import annotations

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from sdi.backends import room
from sdi.cli import app
from sdi.cli.verify import show_verification
from sdi.run.verify import Verification, verify

OWN = '''
from sdi.proofs_checks import Verdict, statement

@statement("own.{name}", paper="mine", method="exact", claim=lambda n: {claim}, mutants={{"off by one": lambda n: n}})
def check(claim, thorough):
    """The sum of 1 to n is n (n + 1) / 2."""
    return Verdict.all((claim(n) == sum(range(n + 1)), f"n = {{n}}") for n in range(1, 9))
'''
runner = CliRunner()


@pytest.fixture
def own(tmp_path):
    """Writes a file with one statement, and forgets it afterwards."""
    registry = room("proofs_checks").statement.__globals__["_registry"]
    before = dict(registry)

    def write(name: str, claim: str):
        path = tmp_path / "own.py"
        path.write_text(OWN.format(name=name, claim=claim))
        return path

    yield write
    registry.clear()
    registry.update(before)


def call(*arguments, code=0):
    result = runner.invoke(app, ["verify", *map(str, arguments)], env={"COLUMNS": "80"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def test_a_statement_of_ones_own_that_holds(own, tmp_path):
    path = tmp_path / "table.json"
    said = call("--statements", own("right", "n * (n + 1) // 2"), "--only", "own.*", "--json", path).stdout
    assert "1 of 1 statements hold" in said
    table = json.loads(path.read_text())
    assert table["passed"] is True
    assert [s["name"] for s in table["statements"]] == ["own.right"]


def test_a_statement_of_ones_own_that_fails_is_exit_code_1(own, tmp_path):
    path = tmp_path / "table.json"
    said = call("--statements", own("wrong", "n * n"), "--only", "own.*", "--json", path, code=1).stdout
    assert "FAILS" in said
    assert "n = 2" in said  # the first counterexample
    assert json.loads(path.read_text())["passed"] is False


def test_the_wrong_claims_of_ones_own_statement_are_rejected(own):
    said = call("--statements", own("right", "n * (n + 1) // 2"), "--only", "own.*", "--mutants").stdout
    assert "off by one" in said
    assert "1 of 1 wrong claims rejected" in said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--only", "no.such.thing"], "must match at least one statement"),
        (["--statements", "nothing.py"], "does not exist"),
    ],
)
def test_bad_input_is_exit_code_2(arguments, words):
    said = call(*arguments, code=2)
    assert words in said.stderr
    assert said.stdout == ""


@pytest.mark.parametrize(
    ("text", "words"), [("", "registers no statement"), ("\nno_such_name", "line 2: NameError"), ("(", "SyntaxError")]
)
def test_a_file_without_statements_or_with_an_error_is_exit_code_2(tmp_path, text, words):
    (tmp_path / "own.py").write_text(text)
    assert words in call("--statements", tmp_path / "own.py", code=2).stderr


@pytest.mark.parametrize("width", [80, 100, 140])
@pytest.mark.parametrize("mutants", [False, True])
def test_the_table_keeps_what_matters_at_every_width(width, mutants):
    report = room("proofs_checks").Report
    names = [s.name for s in room("proofs_checks").statements()]
    says = "something long enough that it would not stand in one line at any width that a terminal has " * 2
    mutant = "a wrong claim with quite some words in it, as they are" if mutants else None
    reports = [report(n, "p", "statistical", says, mutant, True, 1_234_567, 123.45, "") for n in names]
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        show_verification(console, Verification(reports, []), mutants)
        lines = console.export_text().splitlines()
    assert max(map(len, lines)) <= width
    for name in names:
        (line,) = [line for line in lines if line.startswith(name + " ")]
        for cell in ("statistical", "1,234,567", "rejected" if mutants else "holds", "123.45 s"):
            assert cell in line
    assert any("wrong claim with" in line for line in lines) == mutants


@pytest.mark.parametrize("width", [80, 119, 120])
def test_what_a_statement_says_is_shown_in_full_at_every_width(width):
    report = room("proofs_checks").Report
    says = "two and two [are] four, and so on for as many numbers as one likes, whatever their order; " * 2
    found = Verification([report("own.sum", "p", "exact", says, None, True, 8, 0.1, "")], [])
    console = Console(width=width, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        show_verification(console, found, mutants=False)
        lines = console.export_text().splitlines()
    (row,) = (k for k, line in enumerate(lines) if line.startswith("own.sum "))
    assert ("two and two [are] four" in lines[row]) == (width >= 120)
    beside = lines[row].replace("own.sum", "").partition("exact")[0] if width >= 120 else ""
    assert " ".join([beside, *lines[row + 1 : -1]]).split() == says.split()


@pytest.mark.slow
def test_errata_are_shown_in_full_at_80_columns():
    found = verify("errata")
    assert found.errata
    console = Console(width=80, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    with console.file:
        show_verification(console, found, mutants=False)
        shown = "".join(console.export_text().split())
    for erratum in found.errata:
        for key in ("where", "written", "true", "evidence"):
            assert "".join(erratum[key].split()) in shown
