"""Looking at a run's folder runs no code: `sdi top FOLDER` and `sdi parts FOLDER` read what is on disk alone."""

from __future__ import annotations

import json
import shutil

import pytest
from cli_cases import call, call_json, edit, made, project
from paths import TESTS

__all__ = ["made", "project"]

SKETCH = """
from pathlib import Path
Path(__file__).with_name("ran").touch()
from sdi.sketch.shipped.gaussian import GaussianSketch

class Mine(GaussianSketch):
    kind = "mine"
"""


def booby_trapped(project):
    """The project with a script and a sketch that leave a trace when they are run, and no checkpoints."""
    for name in ("task.py", "sketch.py"):
        (project / name).write_text("from pathlib import Path\nPath(__file__).with_name('ran').touch()\n")
    (project / "ran").unlink(missing_ok=True)
    shutil.rmtree(project / "ckpt")
    return project / "runs/first"


@pytest.mark.slow
@pytest.mark.parametrize("command", [["top"], ["top", "--steps", "2-3", "--by", "late"], ["parts"]])
@pytest.mark.parametrize("verb", ["run", "featurize"])
@pytest.mark.parametrize(
    "changes", [{}, {"mode": "matrix"}, {"sketch": "sketch.py:Mine"}], ids=["plain", "matrix", "own"]
)
def test_looking_at_a_folder_runs_nothing_and_says_what_the_config_says(project, command, verb, changes):
    (project / "sketch.py").write_text(SKETCH)
    config = edit(project, **changes)
    call(verb, config)
    asked = [command[0], config, "--query", "q-2", *command[1:]]
    wanted = call_json(*asked)
    folder = booby_trapped(project)
    assert call_json(*[folder if a is config else a for a in asked]) == wanted
    assert not (project / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{"repeats": 2}, {"mode": "train"}, {"mode": "tracin"}, {"backend": "exact"}])
def test_where_a_store_cannot_say_the_result_of_the_folder_is_read(project, changes):
    config = edit(project, **changes)
    call("run", config)
    wanted = call_json("top", config, "--query", "q-2")
    folder = booby_trapped(project)
    assert call_json("top", folder, "--query", "q-2") == wanted
    assert "parts are read from a store of one sketch" in call("parts", folder, "--query", "q-2", code=2).stderr
    assert not (project / "ran").exists()


@pytest.mark.slow
def test_a_result_that_the_run_did_not_save_is_named_not_shown(project):
    config = edit(project, mode="tracin")
    call("run", config)
    result = project / "runs/first/result.safetensors"
    other = edit(project, mode="tracin", seed=3, store="runs/other")
    call("run", other)
    shutil.copyfile(project / "runs/other/result.safetensors", result)
    said = call("top", project / "runs/first", "--query", "q-2", code=2).stderr
    assert "result.safetensors is not the result that" in said
    call("top", result, "--query", "q-2")
    call("featurize", other)
    said = call("top", project / "runs/other", "--query", "q-2", code=2).stderr
    assert "saved no result; name the file that `Result.save` wrote, or make one with `sdi score CONFIG`" in said


@pytest.mark.slow
def test_a_folder_without_a_record_asks_for_the_config(project, tmp_path):
    call("run", project / "run.toml")
    folder = booby_trapped(project)
    (folder / "run.json").unlink()
    for command in ("top", "parts"):
        said = " ".join(call(command, folder, "--query", "q-2", code=2).stderr.split())
        assert "has no run.json" in said
        assert "give the run's config" in said
        assert "whose script is then run" in said
    assert not (project / "ran").exists()
    old = TESTS / "data/written_before/runs/plain"
    assert "has no run.json" in call("top", old, "--query", "q-1", code=2).stderr


@pytest.mark.slow
def test_a_record_that_was_altered_or_is_of_another_store_is_refused(project):
    call("run", project / "run.toml")
    record = project / "runs/first/run.json"
    text = record.read_text()
    for bad in (text.replace("0.05", "0.5"), text[:-9], "[]", "[" * 100_000, "{}", json.dumps({"sha256": 3})):
        record.write_text(bad)
        said = call("top", project / "runs/first", "--query", "q-2", code=2).stderr
        assert "run.json was truncated or altered; run the config again, which writes it anew" in said
    call("run", edit(project, store="runs/other", seed=3))
    record.write_text((project / "runs/other/run.json").read_text())
    said = call("top", project / "runs/first", "--query", "q-2", code=2).stderr
    assert "does not hold the store that its run.json names" in said
