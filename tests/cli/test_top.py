"""`sdi top`: rankings from stores, folders, configs and results."""

from __future__ import annotations

import re
import shutil

import numpy as np
import pytest
from cli_cases import call, call_json, made, models_built, project
from rich.console import Console

import sdi
import sdi.run.inspect
from sdi.cli.run_config import parse_steps
from sdi.cli.tables import top_table

__all__ = ["made", "project"]


@pytest.mark.slow
@pytest.mark.parametrize("by", ["signed", "absolute", "late"])
def test_top_says_the_same_from_store_folder_config_and_result(project, by):
    call("run", project / "run.toml")
    options = ("--query", "q-2", "--query", "q-0", "--steps", "2-3", "-k", "4", "--by", by)
    before = models_built(project)
    streamed, config, result = (
        call_json("top", project / source, *options)
        for source in ("runs/first", "run.toml", "runs/first/result.safetensors")
    )
    assert models_built(project) == before
    assert streamed == config
    for a, b in zip(streamed, result, strict=True):
        assert a["steps"] == b["steps"] == "steps 2 to 3 of 4"
        assert [r["train"] for r in a["rows"]] == [r["train"] for r in b["rows"]]
        np.testing.assert_allclose([r["score"] for r in a["rows"]], [r["score"] for r in b["rows"]], rtol=1e-4)
    shown = call("top", project / "runs/first", *options).stdout
    assert "steps 2 to 3 of 4" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.slow
def test_top_ranks_the_runs_own_examples_and_not_what_else_is_stored(project):
    call("run", project / "run.toml")
    script = (project / "task.py").read_text()
    (project / "task.py").write_text(script.replace('return batches("t", 10, 1)', 'return batches("t", 10, 1)[1:]'))
    said = call_json("run", project / "run.toml")
    assert (said["made"], said["sizes"]["train"]) == (0, 6)
    result, *streamed = (
        call_json("top", project / source, "--query", "q-0")[0]["rows"]
        for source in ("runs/first/result.safetensors", "run.toml", "runs/first")
    )
    for rows in streamed:
        assert [row["train"] for row in rows] == [row["train"] for row in result]


@pytest.mark.slow
def test_top_of_a_run_that_was_killed_says_what_is_lacking(project):
    call("featurize", project / "run.toml")
    for file in (project / "runs/first").glob("step-2-*/train/shard-00001.*"):
        file.unlink()
    for source in ("run.toml", "runs/first"):
        said = call("top", project / source, "--query", "q-0", code=2).stderr
        assert "lacks 4 of 10 train examples at checkpoint step-2.safetensors, 't-4' among them; run `sdi feat" in said
    shutil.rmtree(next((project / "runs/first").glob("step-2-*")) / "query")
    call("featurize", project / "run.toml")
    shutil.rmtree(next((project / "runs/first").glob("step-2-*")) / "query")
    assert "lacks 1 of 1 query examples" in call("top", project / "run.toml", "--query", "q-0", code=2).stderr


@pytest.mark.parametrize("k", ["0", "-1"])
def test_a_ranking_of_no_rows_is_refused_before_the_run(project, k):
    assert "k must be at least 1" in call("run", project / "run.toml", "-k", k, code=2).stderr
    assert not (project / "runs").exists()
    assert models_built(project) == 0


def test_ids_are_printed_as_they_are(project):
    script = (project / "task.py").read_text()
    names = '["animals:dog:3", "a\\\\", "[bold]x[/bold]", "[/]"]'
    new = 'return [{**batches("t", 4, 1)[0], "id": ' + names + "}]"
    (project / "task.py").write_text(script.replace('return batches("t", 10, 1)', new))
    for shown in (call("run", project / "run.toml"), call("top", project / "run.toml", "--query", "q-0")):
        for name in ("animals:dog:3", "a\\ ", "[bold]x[/bold]", "[/] "):
            assert f"  {name}" in shown.stdout


@pytest.mark.slow
def test_a_query_that_is_not_there_comes_with_the_nearest(project):
    call("run", project / "run.toml")
    for source in ("runs/first", "runs/first/result.safetensors"):
        assert "did you mean 'q-" in call("top", project / source, "--query", "q-7", code=2).stderr
    assert "steps must lie within" in call("top", project / "run.toml", "--query", "q-0", "--steps", "9", code=2).stderr


@pytest.mark.slow
def test_what_is_asked_for_twice_is_shown_once(project):
    call("run", project / "run.toml")
    for source in ("runs/first", "runs/first/result.safetensors"):
        found = call_json("top", project / source, "--query", "q-0", "--query", "q-0")
        assert [top["query"] for top in found] == ["q-0"]
    asked = ("parts", project / "runs/first", "--query", "q-0", "--train", "t-0")
    assert call_json(*asked, "--train", "t-0") == call_json(*asked)


def test_a_ranking_of_nobody_says_so(project):
    call("run", project / "run.toml")
    result = sdi.load(project / "runs/first/result.safetensors")
    nobody = result.top(3, query="q-0", by="late", late=1.0)
    console = Console(width=80)
    with console.capture() as said:
        console.print(top_table(nobody, result))
    assert "no training example" in said.get()


@pytest.mark.parametrize("text", ["", "-", "a", "1-2-3", "1.5"])
def test_steps_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="--steps must be"):
        parse_steps(text)


@pytest.mark.slow
def test_a_store_shows_the_same_trajectories_as_its_result(project):
    call("run", project / "run.toml")
    folder = project / "runs" / "first"
    by_store, by_result = (
        call("top", source, "--query", "q-1", "--query", "q-2", "-k", "4", "--by", "absolute").stdout
        for source in (folder, folder / "result.safetensors")
    )
    assert by_store == by_result
    assert "step 1 2 3 …" in by_store
    assert len(re.findall(r"[▁▂▃▄▅▆▇█·]{4} *$", by_store, flags=re.M)) == 8


@pytest.mark.slow
def test_top_with_an_index_says_what_the_scan_says(project):
    pytest.importorskip("faiss")
    call("run", project / "run.toml")
    asked = ("top", project / "runs/first", "--query", "q-0", "--steps", "2-3", "-k", "3")
    said = call(*asked, "--index", code=2).stderr
    assert "index.safetensors is not there: no index has been built; build it: sdi index " in said
    for kind in ("compressed", "exact"):
        made = call_json("index", project / "runs/first", "--kind", kind)
        assert (made["kind"], made["examples"]) == (kind, 10)
        (scan,), (found,) = call_json(*asked), call_json(*asked, "--index")
        assert [row["train"] for row in found["rows"]] == [row["train"] for row in scan["rows"]]
        for name in ("score", "stderr"):
            np.testing.assert_allclose([r[name] for r in found["rows"]], [r[name] for r in scan["rows"]], rtol=1e-5)
    assert "10 examples" in call("index", project / "run.toml").stdout
    assert "steps 2 to 3 of 4" in call(*asked, "--index").stdout
    script = (project / "task.py").read_text()
    (project / "task.py").write_text(script.replace('return batches("t", 10, 1)', 'return batches("t", 10, 1)[1:]'))
    call("run", project / "run.toml")
    said = call(*asked, "--index", code=2).stderr
    assert "is stale: it is of more or fewer training examples than what is asked for; build it: sdi index" in said
    assert "candidates must be more than k=3, got 2" in call(*asked, "--index", "--candidates", 2, code=2).stderr
    assert "train_steps must be None; featurize with mode 'matrix'" in call(*asked, "--train-steps", 2, code=2).stderr
    result = project / "runs/first/result.safetensors"
    assert "SOURCE must be a config or a run's folder with sdi index" in call("index", result, code=2).stderr
    assert "kind must be one of" in call("index", project / "runs/first", "--kind", "x", code=2).stderr
