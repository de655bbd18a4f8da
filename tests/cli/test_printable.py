"""What comes from outside reaches no terminal raw: ids, names and paths are shown with their control characters."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import typer
from cli_cases import call, edit, made, project
from result_cases import make_result

import sdi
from sdi.cli.exit_codes import end
from sdi.result.ranking import Top, TopRow

__all__ = ["made", "project"]
EVIL = "\x1b]0;title\x07\x1b]52;c;cGF5\x07 a\n   1  fake  +9.9 \r\x9b2J\u202e\ud800"
SHOWN = "\\x1b]0;title\\x07\\x1b]52;c;cGF5\\x07 a\\n   1  fake  +9.9 \\r\\x9b2J\\u202e\\ud800"


def is_clean(text):
    return all(c.isprintable() or c == "\n" for c in text)


def test_a_ranking_prints_its_ids_printable():
    top = Top(EVIL, "all steps", "signed", (TopRow(1, EVIL, 1.0, 0.1, 0.5, False),))
    assert is_clean(str(top))
    assert len(str(top).splitlines()) == 3
    assert str(top).startswith(f"query {SHOWN}, ")
    assert f"1  {SHOWN[:30]}" in str(top)  # long ids are cut in the table
    assert next(iter(top)).train == EVIL  # as data, it is what it was


@pytest.fixture
def evil(project):
    """A project whose first training example and query have such an id, and whose store such a path."""
    script = (project / "task.py").read_text()
    text = ascii(EVIL.replace("\ud800", ""))
    script = script.replace(
        'ids = [f"{name}-{k}" for k in range(n)]', f"ids = [{text}, *(f'{{name}}-{{k}}' for k in range(1, n))]"
    )
    (project / "task.py").write_text(script)
    return edit(project, store="runs/\x1b[2Jx")


@pytest.mark.slow
def test_commands_print_ids_and_paths_printable(evil, tmp_path):
    query = EVIL.replace("\ud800", "")
    folder = evil.parent / "runs/\x1b[2Jx"
    for arguments in (
        ("run", evil), ("featurize", evil), ("score", evil), ("inspect", evil),
        ("top", evil, "--query", query, "-k", "10"),
        ("top", folder, "--query", query, "-k", "10"), ("top", folder / "result.safetensors", "--query", query),
        ("parts", folder, "--query", query, "--train", query, "--plot", tmp_path / "p.png"),
    ):  # fmt: skip
        said = call(*arguments)
        assert is_clean(said.stdout), arguments
        assert is_clean(said.stderr), arguments
    shutil.copyfile(folder / "result.safetensors", evil.parent / "r.safetensors")
    sdi.load(evil.parent / "r.safetensors").plot(tmp_path / "q.png", query=query)


def test_refusals_are_printable(evil):
    folder = evil.parent / "runs/\x1b[2Jx"
    call("run", evil)
    shutil.rmtree(next(folder.glob("step-2-*")))
    said = call("top", folder, "--query", "q-1", code=2).stderr
    assert is_clean(said)
    assert "\\x1b[2Jx lacks" in said


def test_a_line_in_a_message_cannot_pass_for_another_message(capsys):
    with pytest.raises(typer.Exit):
        end(2, "no file a\nsdi: all is well\x1b[8m")
    assert capsys.readouterr().err == "sdi: no file a\n  sdi: all is well\\x1b[8m\n"


def test_labels_are_shown_as_python_shows_them():
    result = make_result()
    result = replace(result, labels={**result.labels, "query": (EVIL, "q-1", "q-2")})
    with pytest.raises(ValueError, match="there are only") as refused:
        result.top(1, query="x")
    assert is_clean(str(refused.value))
