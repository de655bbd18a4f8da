"""`sdi parts`: which parameters carry an influence, from a config or a run's folder."""

from __future__ import annotations

import numpy as np
import pytest
from cli_cases import call, call_json, edit, made, project

import sdi

__all__ = ["made", "project"]


@pytest.mark.slow
def test_the_command_shows_the_strongest_or_those_that_are_named(project, tmp_path):
    call("run", project / "run.toml")
    found = call_json("parts", project / "run.toml", "--query", "q-2", "--train", "t-3", "--train", "t-7")
    result = sdi.load(project / "runs/first/result.safetensors")
    wanted = [result.sdi.sel(query="q-2", train=i).values for i in found["train"]]
    assert found["train"] == ["t-3", "t-7"]
    np.testing.assert_allclose(np.sum(found["sdi"], axis=1), wanted, rtol=1e-4, atol=1e-6)
    (strongest,) = call_json("parts", project / "runs/first", "--query", "q-2")["train"]
    assert strongest == result.top(1, query="q-2", by="absolute").rows[0].train
    shown = call("parts", project / "runs/first", "--query", "q-2", "--plot", tmp_path / "p.png").stdout
    assert shown.startswith(f"train {strongest} on query q-2\n")
    assert "all " in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert (tmp_path / "p.png").is_file()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"repeats": 2}, "this run has backend='fast', repeats=2, mode='query'"),
        ({"mode": "tracin"}, "repeats=1, mode='tracin'"),
        ({"backend": "exact"}, "backend='exact'"),
    ],
)
def test_the_command_refuses_runs_that_have_no_parts(project, changes, words):
    said = call("parts", edit(project, **changes), "--query", "q-2", code=2)
    assert words in " ".join(said.stderr.split())


def test_the_command_refuses_a_saved_result(project):
    call("run", project / "run.toml")
    said = call("parts", project / "runs/first/result.safetensors", "--query", "q-2", code=2)
    assert "a saved result does not hold its parts" in " ".join(said.stderr.split())
