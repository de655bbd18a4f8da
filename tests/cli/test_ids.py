"""`sdi ids`, commands that are asked without a query, and stores that Python made."""

from __future__ import annotations

import pytest
from attribution_cases import World, world
from cli_cases import call, call_json, made, project

__all__ = ["made", "project", "world"]


@pytest.mark.slow
def test_ids_are_the_same_of_config_folder_and_result(project):
    call("run", project / "run.toml")
    wanted = {"train": [f"t-{k}" for k in range(10)], "query": ["q-0", "q-1", "q-2"]}
    for source in ("run.toml", "runs/first", "runs/first/result.safetensors"):
        assert call_json("ids", project / source) == wanted
    assert call("ids", project / "runs/first", "--side", "query").stdout == "q-0\nq-1\nq-2\n"
    assert call("ids", project / "runs/first").stdout.splitlines()[9:11] == ["train  t-9", "query  q-0"]
    said = call("ids", project / "runs/first", "--side", "both", code=2).stderr
    assert said == "sdi: --side must be one of (None, 'train', 'query'), got 'both'\n"


@pytest.mark.parametrize("command", ["top", "parts"])
def test_without_a_query_there_is_a_list_of_them(project, command):
    call("run", project / "run.toml")
    said = call(command, project / "runs/first", code=2).stderr
    assert said.startswith("sdi: --query must name a query; ")
    assert said.endswith("has 3:\n  q-0\n  q-1\n  q-2\n")


def test_of_many_queries_some_are_listed(project):
    script = (project / "task.py").read_text()
    (project / "task.py").write_text(script.replace('batches("q", 3, 2)', 'batches("q", 23, 2)'))
    said = call("top", project / "run.toml", code=2).stderr
    assert "has 23:\n  q-0\n" in said
    assert said.endswith("q-19\n  ... and 3 more: sdi ids " + f"{project / 'run.toml'} --side query\n")


def test_top_and_parts_read_a_store_that_python_made(world: World) -> None:
    result = world.attribute(store=world.store)
    (top,) = call_json("top", world.store, "--query", "q-1", "-k", "3")
    assert [row["train"] for row in top["rows"]] == [row.train for row in result.top(3, query="q-1")]
    assert call_json("parts", world.store, "--query", "q-1")["query"] == "q-1"
    assert call_json("ids", world.store)["query"] == list(result.labels["query"])


def test_of_a_store_without_the_steps_of_queries_the_result_is_asked_for(world: World) -> None:
    result = world.attribute(store=world.store, mode="tracin")
    said = call("top", world.store, "--query", "q-1", code=2).stderr
    assert "saved no result; name the file that `Result.save` wrote" in said
    (world.folder / "g.csv").write_text("t-0,a\n")
    said = call("top", world.store, "--query", "q-1", "--by-group", world.folder / "g.csv", code=2).stderr
    assert "groups are read from a store of one sketch that has the steps of queries; this run has" in said
    result.save(world.store / "result.safetensors")
    assert call_json("top", world.store / "result.safetensors", "--query", "q-1")[0]["query"] == "q-1"
