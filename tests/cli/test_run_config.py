"""`sdi run`, `featurize`, `score`, `inspect`, `choose-m` on a small script; quiet processes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attribution_cases import counting
from cli_cases import SCRIPT, call, call_json, edit, files, made, models_built, project

import sdi
import sdi.fast
import sdi.run.inspect
from sdi.cli import app
from sdi.inputs.checkpoints import Checkpoint

pytestmark = pytest.mark.slow


__all__ = ["made", "project"]


def test_run_gives_what_attribute_gives_and_saves_it(project):
    said = call_json("run", project / "run.toml")
    assert (said["made"], said["reused"]) == (26, 0)
    assert said["sizes"] == {"checkpoint": 2, "train": 10, "query": 3, "step": 4}
    result = sdi.load(said["result"])
    scope: dict[str, object] = {"__file__": str(project / "task.py")}
    exec(compile(SCRIPT, "task.py", "exec"), scope)
    again = sdi.attribute(
        scope["model"](),
        loss=scope["loss"],
        loop=sdi.Loop(body="core", step="core"),
        checkpoints=str(project / "ckpt/*.safetensors"),
        train=scope["train"](),
        query=list(scope["query"]()),
        m=16,
    )
    np.testing.assert_array_equal(result.sdi.values, again.sdi.values)
    assert said["top"][0]["rows"][0]["train"] == again.top(1, query="q-0").rows[0].train


def test_featurize_then_score_is_run(project):
    ran = sdi.load(call_json("run", project / "run.toml")["result"])
    config = edit(project, store="runs/second")
    assert call_json("featurize", config)["made"] == 26
    assert not (project / "runs/second/result.safetensors").exists()
    before = models_built(project)
    scored = sdi.load(call_json("score", config)["result"])
    assert models_built(project) == before  # no work by the model, not even its making
    np.testing.assert_array_equal(scored.sdi.values, ran.sdi.values)
    assert scored.info == ran.info


def test_a_replay_of_the_run_folder_makes_nothing_and_changes_nothing(project):
    call("run", project / "run.toml")
    before = files(project / "runs/first")
    said = call_json("run", project / "runs/first/run.toml")
    assert (said["made"], said["reused"]) == (0, 26)
    assert files(project / "runs/first") == before


def test_the_run_folder_says_everything_and_can_be_moved_with_its_project(project, tmp_path):
    call("run", project / "run.toml")
    text = (project / "runs/first/run.toml").read_text()
    assert "eta = [0.1, 0.05]" in text
    assert 'memory = "auto"' in text
    assert f'sdi = "{sdi.__version__}"' in text
    moved = tmp_path / "moved [1]"
    project.rename(moved)
    assert call_json("run", moved / "runs/first/run.toml")["made"] == 0


def test_a_replay_keeps_to_the_checkpoints_that_there_were(project):
    call("run", project / "run.toml")
    for ending in ("safetensors", "json"):
        shutil.copy(project / f"ckpt/step-2.{ending}", project / f"ckpt/step-3.{ending}")
    assert call_json("run", project / "runs/first/run.toml")["sizes"]["checkpoint"] == 2


def test_the_commit_of_the_scripts_folder_is_recorded(project):
    git = ["git", "-C", str(project), "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "task.py"], ["commit", "-q", "-m", "a"]):
        subprocess.run([*git, *arguments], check=True, capture_output=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    call("featurize", project / "run.toml")
    assert f'commit = "{head}"' in (project / "runs/first/run.toml").read_text()


def test_new_queries_reuse_the_training_side(project):
    call("run", project / "run.toml")
    script = (project / "task.py").read_text().replace('batches("q", 3, 2)', 'batches("new", 2, 3)')
    (project / "task.py").write_text(script)
    said = call_json("run", project / "run.toml")
    assert (said["made"], said["reused"]) == (4, 20)


@pytest.mark.parametrize("mode", ["train", "matrix", "tracin"])
def test_other_modes_run_and_rank(project, mode):
    config = edit(project, mode=mode)
    said = call_json("run", config)
    tops = call_json("top", project / "runs/first", "--query", "q-1", "-k", "3")
    assert [row["train"] for row in tops[0]["rows"]] == [row["train"] for row in said["top"][1]["rows"][:3]]
    call("run", config)


def test_repeats_and_the_exact_backend_run(project):
    repeated = call_json("run", edit(project, repeats=3))
    assert repeated["made"] == 3 * 26
    assert call_json("run", project / "runs/first/run.toml")["made"] == 0
    ranking = call_json("top", project / "run.toml", "--query", "q-0", "-k", "2")
    exact = call_json("run", edit(project, repeats=1, backend="exact", store="runs/exact"))
    assert {row["stderr"] for top in exact["top"] for row in top["rows"]} == {0.0}
    assert len(ranking[0]["rows"]) == 2
    call("featurize", project / "run.toml", code=2)
    call("score", project / "run.toml", code=2)


def test_inspect_sees_everything_and_writes_nothing(project):
    before = files(project).keys()
    found = call_json("inspect", project / "run.toml")
    assert files(project).keys() - before <= {Path("built")}
    assert [c["eta"] for c in found["checkpoints"]] == [0.1, 0.05]
    assert {p["parameter"]: p["calls"] for p in found["parameters"]} == {"core.weight": 4, "core.bias": 4}
    assert (found["sides"]["train"]["examples"], found["sides"]["query"]["examples"]) == (10, 3)
    assert found["sides"]["query"]["steps"] == 4
    assert found["seconds"] > 0
    call("run", project / "run.toml")
    after = call_json("inspect", project / "run.toml")
    assert after["seconds"] == 0
    shards = [p for p in (project / "runs/first").rglob("shard-*.safetensors")]
    real = sum(p.stat().st_size for p in shards)
    assert after["store_bytes"] <= real <= after["store_bytes"] + 400 * len(shards)  # but for the headers
    shown = call("inspect", project / "run.toml").stdout
    for words in ("step-1.safetensors", "core.weight", "10", "time", "memory", "store"):
        assert words in shown


def test_memory_is_counted_after_a_pass_that_is_thrown_away(project, monkeypatch):
    """What a library loads on first use would be charged to the side that comes first."""
    fast = sdi.backend("fast")
    seen, start, run = [], sdi.run.inspect.start_peak, fast.Featurizer.__call__
    monkeypatch.setattr(sdi.run.inspect, "start_peak", lambda: (seen.append("mark"), start())[1])
    monkeypatch.setattr(fast.Featurizer, "__call__", lambda *args: (seen.append("pass"), run(*args))[1])
    call("inspect", project / "run.toml")
    assert seen == ["pass", "mark", "pass", "pass"] * 2


def test_choose_m_with_and_without_a_pilot(project):
    alone = call_json("choose-m", "--target", "0.05")
    assert alone == {"target": 0.05, "bound": 4096, "pilot": None, "pilot_error": None, "pilot_m": 256}
    measured = call_json("choose-m", "--target", "0.05", project / "run.toml")
    assert measured["bound"] == 4096
    assert 1 <= measured["pilot"] <= 4096
    assert measured["pilot_error"] >= 0
    assert "one batch of the last checkpoint" in call("choose-m", "--target", "0.05", project / "run.toml").stdout
    assert "4,096" in call("choose-m", "--target", "0.05").stdout


def test_m_none_keeps_gradients_whole(project):
    said = call_json("run", edit(project, m="none"))
    assert {row["stderr"] for top in said["top"] for row in top["rows"]} == {0.0}
    assert 'm = "none"' in (project / "runs/first/run.toml").read_text()
    assert call_json("run", project / "runs/first/run.toml")["made"] == 0


def test_what_a_script_prints_stays_out_of_the_json(project):
    (project / "task.py").write_text("print('hello')\n" + (project / "task.py").read_text())
    assert call_json("run", project / "run.toml")["made"] == 26
    assert "hello" in call("run", project / "run.toml").stdout


def test_what_a_process_prints_that_the_script_starts_stays_out_of_the_json(project, capfd):
    starts = "import subprocess; subprocess.run(['echo', 'hello'])\n"
    (project / "task.py").write_text(starts + (project / "task.py").read_text())
    app(["featurize", str(project / "run.toml"), "--json"], standalone_mode=False)
    said = capfd.readouterr()
    assert json.loads(said.out)["made"] == 26
    assert said.err == "hello\n"


def test_a_result_of_the_exact_backend_does_not_block_the_folder(project):
    call("run", edit(project, backend="exact"))
    assert call_json("run", edit(project, backend="fast"))["made"] == 26


def test_a_home_is_found_in_a_config(project, monkeypatch):
    monkeypatch.setenv("HOME", str(project))
    other = project / "other"
    other.mkdir()
    paths = {
        "script": "~/task.py",
        "checkpoints": ["~/ckpt/*.safetensors"],
        "store": "~/s",
        "result": "~/r.safetensors",
    }
    shutil.move(edit(project, **paths), other / "run.toml")
    said = call_json("run", other / "run.toml")
    assert (said["store"], said["result"]) == (str(project / "s"), str(project / "r.safetensors"))
    assert call_json("run", project / "s/run.toml")["made"] == 0


def test_a_finished_run_loads_one_checkpoint_to_see_that_its_code_is_the_same(project):
    call("run", project / "run.toml")
    with counting(Checkpoint, "weights", lambda c: c.path.stem) as loaded:
        said = call_json("run", project / "run.toml")
    assert (said["made"], said["reused"], loaded) == (0, 26, ["step-1"])
    script = (project / "task.py").read_text()
    (project / "task.py").write_text(script.replace("range(4)", "range(7)"))  # in forward(): no fingerprint sees it
    words = "train example 't-0' at checkpoint"
    for command in ("run", "featurize"):
        said = call(command, project / "run.toml", code=2).stderr
        assert words in said
        assert "made by other code" in said
    with counting(Checkpoint, "weights") as loaded:
        call("score", project / "run.toml")
    assert loaded == []


@pytest.mark.parametrize("at", [1, 2, 3, 5])
@pytest.mark.parametrize("command", ["run", "featurize"])
def test_a_run_stopped_by_the_user_loses_what_it_says_and_goes_on_to_the_same_bytes(project, monkeypatch, command, at):
    """Shards of 6 examples and batches of 4: one batch waits for the next."""
    config = edit(project, shard=6)
    whole = shutil.copytree(project, project.parent / "whole")
    call(command, whole / "run.toml")
    make, made = sdi.fast.Featurizer.__call__, []

    def stop(self, batch, ids=()):
        if len(made) == at:
            raise KeyboardInterrupt
        made.extend([len(ids)] * (self.audit != "off"))  # the look for widths comes before, and stores nothing
        return make(self, batch, ids)

    monkeypatch.setattr(sdi.fast.Featurizer, "__call__", stop)
    said = call(command, config, code=130).stderr
    assert (
        "finished shards are kept, and what came after the last one (fewer examples than one shard and a batch" in said
    )
    monkeypatch.setattr(sdi.fast.Featurizer, "__call__", make)
    again = call_json(command, config)["made"]
    assert again <= 26 - sum(made) + 6
    assert stored(project / "runs/first") == stored(whole / "runs/first")


def stored(folder):
    return {name: content for name, content in files(folder).items() if "step-" in str(name)}


def test_a_command_that_keeps_nothing_does_not_say_so(project, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdi.run.inspect.inspect_run", stop)
    assert call("inspect", project / "run.toml", code=130).stderr == "sdi: stopped\n"


def test_an_eta_of_zero_is_reported(project):
    assert "eta 0 and adds nothing" in call("run", edit(project, eta=[0.0, 0.1])).stdout


def test_a_real_process_is_quiet_and_its_json_is_all_there_is(project):
    command = [sys.executable, "-m", "sdi", "run", "run.toml", "--json"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout)["made"] == 26
    done = subprocess.run([*command[:-2], "nothing.toml"], cwd=project, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "sdi: config nothing.toml does not exist\n"


@pytest.mark.parametrize("repeats", [1, 2])
def test_a_config_may_spread_its_bytes(project, repeats):
    config = edit(project, spread=True, repeats=repeats)
    whole = sdi.load(call_json("run", config)["result"])
    assert whole.info["settings"]["spread"] is True
    assert (call_json("run", project / "runs/first/run.toml")["made"], "spread = true" in read_run(project)) == (
        0,
        True,
    )
    parts = edit(project, spread=True, repeats=repeats, store="runs/parts")
    call("inspect", parts)
    call("featurize", parts)
    np.testing.assert_array_equal(sdi.load(call_json("score", parts)["result"]).sdi.values, whole.sdi.values)
    call("inspect", parts)
    assert "spread" in call("score", edit(project, spread=False, repeats=repeats), code=2).output


def read_run(project):
    return (project / "runs/first/run.toml").read_text()


def test_a_run_records_that_it_was_spread_and_one_that_was_not_goes_on_so(project):
    config = project / "run.toml"
    silent = config.read_text()
    assert "spread" not in silent
    call("run", config)
    assert "spread = true" in read_run(project)
    shutil.rmtree(project / "runs")
    call("run", edit(project, spread=False))
    config.write_text(silent)
    assert call_json("run", config)["made"] == 0
    assert "spread = false" in read_run(project)


def test_one_store_is_scored_and_ranked_with_either_kind_of_error_bar(project):
    errors = {}
    for bars in ("bound", "estimated"):
        config = edit(project, stderr=bars)
        result = sdi.load(call_json("run", config)["result"])
        assert result.info["settings"]["stderr"] == bars
        assert sdi.load(call_json("score", config)["result"]).info == result.info
        rows = call_json("top", config, "--query", "q-0")[0]["rows"]
        assert [row["stderr"] for row in rows] == pytest.approx([r.stderr for r in result.top(query="q-0")], rel=1e-5)
        errors[bars] = result.stderr.values
    assert (errors["bound"] != errors["estimated"]).any()


def test_a_config_may_have_a_loop_within_a_loop(project):
    text = SCRIPT.replace(
        "        for _ in range(4):\n            s = torch.tanh(self.core(s))\n",
        "        for cycle in (3, 1):\n            s = self.high(s)\n            for _ in range(cycle):\n"
        "                s = torch.tanh(self.core(s))\n",
    ).replace("nn.Linear(6, 1)\n", "nn.Linear(6, 1)\n        self.high = nn.Identity()\n")
    assert "self.high(s)" in text
    (project / "task.py").write_text(text)
    config = edit(project, cycle="high", inner=3, store="runs/cycles")
    ran = sdi.load(call_json("run", config)["result"])
    pairs = ran.nested()
    assert pairs.sizes == {"train": 10, "query": 3, "cycle": 2, "step": 3}
    assert (pairs != 0).any(["train", "query"]).values.tolist() == [[True, True, True], [True, False, False]]
    assert sdi.load(call_json("score", config)["result"]).nested().equals(pairs)
    assert call_json("run", project / "runs/cycles/run.toml")["made"] == 0
    store, points = sdi.Store(project / "runs/cycles"), sdi.find_checkpoints(project / "ckpt/*.safetensors")
    groups = sdi.group_scores(store, points, lambda i: "all")
    np.testing.assert_allclose(groups.result.nested().values[0], pairs.sum("train").values, rtol=1e-4, atol=1e-5)
    said = call("run", edit(project, inner=0), code=2).output
    assert "inner must be an integer of at least 1, got 0" in " ".join(said.split())


def test_a_plan_says_what_a_run_of_any_size_takes_and_writes_nothing(project):
    before = files(project)
    said = call_json("plan", project / "run.toml", "--examples", "10", "--examples", "1e9", "--hosts", 8)
    assert {k: v for k, v in files(project).items() if k.name != "built"} == before
    assert [size["examples"] for size in said["sizes"]] == [10, 10**9]
    assert (said["hosts"], said["queries"], said["checkpoints"], said["timed_on"]) == (8, 3, 2, "cpu")
    call("run", project / "run.toml")
    stored = [p for p in (project / "runs/first").rglob("*") if p.name.startswith(("shard-", "manifest"))]
    assert said["sizes"][0]["disk_bytes"] == sum(p.stat().st_size for p in stored)
    assert "for n training examples:" in call("plan", project / "run.toml", "--queries", 5).stdout
    wrong = call("plan", project / "run.toml", "--examples", "many", code=2).stderr
    assert "--examples must be a number of training examples such as 250000 or 1e6, got 'many'" in wrong
