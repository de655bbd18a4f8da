"""`sdi report`: of a config, a run's folder, a saved result; what it runs, and what it refuses."""

from __future__ import annotations

import base64
import gzip
import json
import re

import pytest
from cli_cases import call, edit, made, project  # noqa: F401  (fixtures)

from sdi.report import page

SHOW = """
def show(example):
    return f"x is {float(example['x'][0]):.2f}"
"""


@pytest.fixture(autouse=True)
def _without_the_library(monkeypatch):
    monkeypatch.setattr(page, "library", lambda: base64.b64encode(gzip.compress(b"", mtime=0)).decode())


def data_of(path):
    (text,) = re.findall(r'id="data">(.*?)</script>', path.read_text(), flags=re.S)
    return json.loads(text)


@pytest.mark.slow
def test_a_run_has_a_report_by_its_folder_its_config_and_its_result(project):  # noqa: F811
    call("run", project / "run.toml")
    store = project / "runs" / "first"
    before = (project / "built").read_text()
    assert "report.html" in call("report", store).stdout
    assert (project / "built").read_text() == before
    by_folder = data_of(store / "report.html")
    assert by_folder["audit"]["passed"] is True
    assert len(by_folder["train"]["ids"]) == 10
    assert sorted(by_folder["parts"]["of"]) == ["0", "1", "2"]
    call("report", store / "result.safetensors", "--out", project / "mine.html", "--query", "q-1")
    by_result = data_of(project / "mine.html")
    assert by_result["query"]["ids"] == ["q-1"]
    assert by_result["parts"] is None
    assert any("store" in words for words in by_result["left_out"])
    (project / "groups.csv").write_text("id,group\n" + "".join(f"t-{k},{'ab'[k % 2]}\n" for k in range(10)))
    script = (project / "task.py").read_text()
    (project / "show.py").write_text(script + SHOW)
    call("report", store, "--show", project / "show.py", "--by-group", project / "groups.csv")
    shown = data_of(store / "report.html")
    assert set(shown["energy"]) == {"a", "b"}
    assert shown["shown"]["train"]["t-3"]["text"].startswith("x is ")
    assert shown["sdi"] == by_folder["sdi"]
    assert "show.py does not define show()" not in call("report", store, "--show", project / "task.py", code=2).stdout
    call("run", project / "run.toml")  # the folder is still a store with a report in it


@pytest.mark.slow
def test_a_store_without_a_saved_result_is_scored(project):  # noqa: F811
    call("featurize", project / "run.toml")
    store = project / "runs" / "first"
    call("report", store)
    before = data_of(store / "report.html")
    call("run", project / "run.toml")
    call("report", store)
    after = data_of(store / "report.html")
    assert before["sdi"] == after["sdi"]
    assert before["stderr"] == after["stderr"]
    assert before["audit"]["passed"] is None


@pytest.mark.slow
def test_a_config_whose_script_shows_needs_no_option(project):  # noqa: F811
    script = project / "task.py"
    script.write_text(script.read_text() + SHOW)
    call("run", project / "run.toml")
    call("report", project / "run.toml")
    assert data_of(project / "runs" / "first" / "report.html")["shown"]["query"]["q-0"]["text"].startswith("x is ")
    edit(project, mode="tracin", store="runs/second")
    call("run", project / "run.toml")
    assert "mode='tracin'" in call("report", project / "runs" / "second", code=2).stderr


@pytest.mark.slow
def test_figures_are_written_beside(project):  # noqa: F811
    call("run", project / "run.toml")
    said = call("report", project / "runs" / "first", "--figures", project / "f", "--query", "q-1", "--style", "paper")
    assert "9 files" in said.stdout
    written = {path.name: path.read_bytes() for path in (project / "f").iterdir()}
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    kinds = ("trajectories", "heatmap", "parameters")
    assert set(written) == {f"query-2-{kind}.{ending}" for kind in kinds for ending in starts}
    assert all(data.startswith(starts[name.rpartition(".")[2]]) for name, data in written.items())
    width = re.search(rb'<svg [^>]*width="([\d.]+)pt"', written["query-2-heatmap.svg"])
    assert width is not None
    assert float(width[1]) == pytest.approx(3.33 * 72)
