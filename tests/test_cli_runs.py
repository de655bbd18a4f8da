"""`sdi run`, `featurize`, `score`, `top`, `inspect`, `choose-m` on a small script; exit codes; quiet processes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import save_file
from test_attribution_cases import counting
from typer.testing import CliRunner

import sdi
import sdi.inspect
from sdi.checkpoints import Checkpoint
from sdi.cli import app
from sdi.cli_runs import parse_steps
from sdi.show import top_table

SCRIPT = """
from pathlib import Path
import torch
from torch import nn

class Looped(nn.Module):
    def __init__(self):
        super().__init__()
        self.read_in, self.core, self.head = nn.Linear(3, 6), nn.Linear(6, 6), nn.Linear(6, 1)
    def forward(self, x):
        s = self.read_in(x)
        for _ in range(4):
            s = torch.tanh(self.core(s))
        return self.head(s)

def model():
    with open(Path(__file__).with_name("built"), "a") as built:
        built.write("x")
    torch.manual_seed(0)
    return Looped()

def loss(model, batch):
    return (model(batch["x"]) - batch["y"]).square().sum(-1)

def batches(name, n, seed):
    rng = torch.Generator().manual_seed(seed)
    x, y = torch.randn(n, 3, generator=rng), torch.randn(n, 1, generator=rng)
    ids = [f"{name}-{k}" for k in range(n)]
    return [{"id": ids[i:i+4], "x": x[i:i+4], "y": y[i:i+4]} for i in range(0, n, 4)]

def train():
    return batches("t", 10, 1)

def query():
    yield from batches("q", 3, 2)
"""
CONFIG = """
script = "task.py"
checkpoints = ["ckpt/*.safetensors"]
body = ["core"]
step = "core"
m = 16
store = "runs/first"
shard = 4
"""

runner = CliRunner()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A project with two checkpoints whose learning rates stand beside them."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "task.py").write_text(SCRIPT)
    (folder / "run.toml").write_text(CONFIG)
    (folder / "ckpt").mkdir()
    scope: dict[str, object] = {"__file__": str(folder / "task.py")}
    exec(compile(SCRIPT, "task.py", "exec"), scope)
    model = scope["model"]()
    for k, eta in ((1, 0.1), (2, 0.05)):
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1.1)
        save_file(model.state_dict(), folder / "ckpt" / f"step-{k}.safetensors")
        (folder / "ckpt" / f"step-{k}.json").write_text(json.dumps({"eta": eta}))
    (folder / "built").unlink()
    return folder


@pytest.fixture
def project(made, tmp_path):
    shutil.copytree(made, tmp_path / "p")
    return tmp_path / "p"


def call(*arguments, code=0):
    result = runner.invoke(app, [str(a) for a in arguments], env={"COLUMNS": "80"})
    assert result.exit_code == code, (result.output, result.exception)
    return result


def call_json(*arguments):
    return json.loads(call(*arguments, "--json").stdout)


def files(folder):
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file() and p.name != "lock"}


def models_built(project):
    path = project / "built"
    return len(path.read_text()) if path.exists() else 0


def edit(project, **changes):
    """The config with keys changed, added, or (None) taken out."""
    lines = [
        line for line in (project / "run.toml").read_text().splitlines() if line.partition(" = ")[0] not in changes
    ]
    lines += [f"{key} = {json.dumps(value)}" for key, value in changes.items() if value is not None]
    (project / "run.toml").write_text("\n".join(lines))
    return project / "run.toml"


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
    seen, start, run = [], sdi.inspect._start_peak, fast.Featurizer.__call__
    monkeypatch.setattr(sdi.inspect, "_start_peak", lambda: (seen.append("mark"), start())[1])
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


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chekpoints": ["x"]}, ["unknown key 'chekpoints'", "did you mean 'checkpoints'"]),
        ({"body": None, "step": None}, ["lacks body, step"]),
        ({"m": "many"}, ["m must be a whole number", "'many'"]),
        ({"m": True}, ["m must be a whole number"]),
        ({"m": 0}, ["m must be a whole number, at least 1", "got 0"]),
        ({"mode": "qurey"}, ["mode must be one of", "'qurey'"]),
        ({"eta": ["a"]}, ["eta must be a list of numbers"]),
        ({"eta": [0.1]}, ["one weight for each of the 2 checkpoints"]),
        ({"checkpoints": ["none/*"]}, ["names no file"]),
        ({"body": ["croe"]}, ["'croe' matches no parameter", "did you mean 'core'"]),
        ({"script": "other.py"}, ["other.py, which does not exist"]),
        ({"shard": 0}, ["shard must be a whole number, at least 1"]),
        ({"budget": 5}, ["budget must be a whole number, at least 1048576"]),
        ({"step": ""}, ["step must be a text"]),
    ],
)
def test_a_bad_config_is_refused_in_words_and_nothing_is_written(project, changes, words):
    config = edit(project, **changes)
    said = call("run", config, code=2)
    for word in words:
        assert word in said.stderr
    assert said.stdout == ""
    assert not (project / "runs").exists()


def test_m_none_keeps_gradients_whole(project):
    said = call_json("run", edit(project, m="none"))
    assert {row["stderr"] for top in said["top"] for row in top["rows"]} == {0.0}
    assert 'm = "none"' in (project / "runs/first/run.toml").read_text()
    assert call_json("run", project / "runs/first/run.toml")["made"] == 0


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("def query():\n    yield from", "queries =", ["does not define query()"]),
        ("import torch\n", "import torch\n)\n", ["line", "SyntaxError"]),
        ("import torch\n", "import torhc\n", ["ModuleNotFoundError", "torhc"]),
        ('batch["y"]', 'batch["z"]', ["in loss()", "KeyError"]),
        ("self.read_in(x)", "self.read_in(x[:, 1:])", ["in forward()", "RuntimeError"]),
        ('batches("t", 10, 1)', "[]", ["train gave no "]),
        (".sum(-1)", ".mean()", ["one value per example"]),
        ("nn.Linear(3, 6)", "nn.Linear(3, 6, bias=False)", ["unexpected 'read_in.bias'"]),
    ],
)
def test_a_bad_script_is_refused_with_its_place(project, old, new, words):
    script = (project / "task.py").read_text()
    assert old in script
    (project / "task.py").write_text(script.replace(old, new))
    said = call("run", project / "run.toml", code=2)
    for word in words:
        assert word in said.stderr
    assert said.stdout == ""


HELPER = """
def fail(x):
    raise AssertionError("from the helper")
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (
            "def loss(model, batch):\n",
            "from helper import fail\ndef loss(model, batch):\n    fail(0)\n",
            "in fail(): Ass",
        ),
        (
            "def train():\n",
            "from helper import fail\ndef train():\n    fail(0)\n",
            "in fail(): AssertionError: from the",
        ),
        (
            "import torch\n",
            "import torch\nimport helper; helper.fail(0)\n",
            "in fail(): AssertionError: from the helper",
        ),
        ("import torch\n", "import torch, broken\n", "broken.py, line 1: SyntaxError"),
        ("    return Looped()", "    Looped()", "must return a model, got None"),
        ('    return batches("t", 10, 1)', "    pass", "train() of the script must return batches, got None"),
        ("def train():\n", "def train():\n    import sys; sys.exit(0)\n", "in train(): SystemExit: 0"),
        ("import torch\n", "import torch, sys\nsys.exit('no data')\n", "line 4: SystemExit: no data"),
    ],
)
def test_an_error_in_what_the_script_imports_or_leaves_out_is_the_users(project, old, new, words):
    script = (project / "task.py").read_text()
    assert old in script
    (project / "helper.py").write_text(HELPER)
    (project / "broken.py").write_text("def")
    (project / "task.py").write_text(script.replace(old, new, 1))
    sys.modules.pop("helper", None)
    said = call("run", project / "run.toml", code=2)
    assert words in said.stderr
    assert said.stdout == ""
    assert not (project / "runs").exists()


def test_a_defect_of_ours_still_flies(project, monkeypatch):
    monkeypatch.setattr("sdi.runs.steps_of", {}.__getitem__)  # a KeyError where no code of the user's is
    result = runner.invoke(app, ["featurize", str(project / "run.toml")])
    assert isinstance(result.exception, KeyError)


def test_a_failed_audit_is_exit_code_1(project):
    script = (
        (project / "task.py").read_text().replace('model(batch["x"])', '(model(batch["x"]) + model(batch["x"]).mean())')
    )
    (project / "task.py").write_text(script)
    said = call("run", project / "run.toml", code=1)
    assert "audit failed: the gradient of example" in said.stderr
    assert "mixes examples" in said.stderr


def test_examples_that_the_store_lacks_are_not_scored(project):
    call("featurize", project / "run.toml")
    (project / "task.py").write_text(
        (project / "task.py").read_text().replace('batches("t", 10, 1)', 'batches("t", 12, 1)')
    )
    assert "run `sdi featurize` first" in call("score", project / "run.toml", code=2).stderr


def test_what_a_script_prints_stays_out_of_the_json(project):
    (project / "task.py").write_text("print('hello')\n" + (project / "task.py").read_text())
    assert call_json("run", project / "run.toml")["made"] == 26
    assert "hello" in call("run", project / "run.toml").stdout


def test_what_a_process_prints_that_the_script_starts_stays_out_of_the_json(project):
    starts = "import subprocess; subprocess.run(['echo', 'hello'])\n"
    (project / "task.py").write_text(starts + (project / "task.py").read_text())
    command = [sys.executable, "-m", "sdi.cli", "featurize", "run.toml", "--json"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=120, check=True)
    assert json.loads(done.stdout)["made"] == 26
    assert done.stderr == "hello\n"


@pytest.mark.parametrize("json", [["--json"], []])
def test_a_pipe_that_is_closed_ends_a_command_quietly_and_a_full_device_with_a_line(project, json):
    call("run", project / "run.toml")
    command = [sys.executable, "-m", "sdi.cli", "top", "run.toml", "--query", "q-0", *json]
    closed, out = os.pipe()
    os.close(closed)
    with os.fdopen(out, "w") as pipe:
        done = subprocess.run(command, cwd=project, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=project, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "sdi: stdout cannot be written: [Errno 28] No space left on device\n"


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


def test_a_result_of_the_exact_backend_does_not_block_the_folder(project):
    call("run", edit(project, backend="exact"))
    assert call_json("run", edit(project, backend="fast"))["made"] == 26


def test_featurize_refuses_etas_that_lack_a_body_parameter_before_any_work(project):
    (project / "ckpt/step-2.json").write_text('{"eta": {"core.weight": 0.1}}')
    said = call("featurize", project / "run.toml", code=2).stderr
    assert "eta of step-2.safetensors has none for parameter 'core.bias', only for ['core.weight']" in said
    assert not (project / "runs").exists()


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


def test_ids_are_printed_as_they_are(project):
    script = (project / "task.py").read_text()
    names = '["animals:dog:3", "a\\\\", "[bold]x[/bold]", "[/]"]'
    new = 'return [{**batches("t", 4, 1)[0], "id": ' + names + "}]"
    (project / "task.py").write_text(script.replace('return batches("t", 10, 1)', new))
    for shown in (call("run", project / "run.toml"), call("top", project / "run.toml", "--query", "q-0")):
        for name in ("animals:dog:3", "a\\ ", "[bold]x[/bold]", "[/] "):
            assert f"  {name}" in shown.stdout


def test_other_settings_than_the_stores_are_refused(project):
    call("featurize", project / "run.toml")
    for command in ("run", "score"):
        assert "other settings" in call(command, edit(project, m=8), code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["score", "run.toml"], "holds no features yet"),
        (["top", "run.toml", "--query", "q-0"], "holds no features yet"),
        (["top", "ckpt", "--query", "q-0"], "has no run.toml"),
        (["top", "nothing", "--query", "q-0"], "does not exist"),
        (["top", "task.py", "--query", "q-0"], "is not a result"),
        (["top", "run.toml", "--query", "q-0", "--steps", "3-x"], "--steps must be"),
        (["run", "nothing.toml"], "does not exist"),
        (["run", "task.py"], "is not TOML"),
        (["choose-m", "--target", "-1"], "target"),
    ],
)
def test_bad_calls_are_exit_code_2(project, arguments, words):
    named = [str(project / a) if (project / a).exists() or "nothing" in a else a for a in arguments]
    said = call(*named, code=2)
    assert words in said.stderr
    assert said.stdout == ""


def test_a_query_that_is_not_there_comes_with_the_nearest(project):
    call("run", project / "run.toml")
    for source in ("runs/first", "runs/first/result.safetensors"):
        assert "did you mean 'q-" in call("top", project / source, "--query", "q-7", code=2).stderr
    assert "steps must lie within" in call("top", project / "run.toml", "--query", "q-0", "--steps", "9", code=2).stderr


def test_a_ranking_of_nobody_says_so(project):
    call("run", project / "run.toml")
    result = sdi.load(project / "runs/first/result.safetensors")
    nobody = result.top(3, query="q-0", by="late", late=2.0)
    console = Console(width=80)
    with console.capture() as said:
        console.print(top_table(nobody, result))
    assert "no training example" in said.get()


def test_a_run_stopped_by_the_user_says_how_to_go_on(project, monkeypatch):
    def stop(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("sdi.runs.run", stop)
    assert "goes on where it was" in call("run", project / "run.toml", code=130).stderr


def test_an_eta_of_zero_is_reported(project):
    assert "eta 0 and adds nothing" in call("run", edit(project, eta=[0.0, 0.1])).stdout


@pytest.mark.parametrize("text", ["", "-", "a", "1-2-3", "1.5"])
def test_steps_that_are_none_are_refused(text):
    with pytest.raises(ValueError, match="--steps must be"):
        parse_steps(text)


def test_a_real_process_is_quiet_and_its_json_is_all_there_is(project):
    command = [sys.executable, "-m", "sdi.cli", "run", "run.toml", "--json"]
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


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"spread": 3}, "true or false, got 3"), ({"spread": True, "m": "none"}, "m must be one width")],
)
def test_a_config_that_cannot_be_spread_is_bad_input(project, changes, text):
    assert text in " ".join(call("run", edit(project, **changes), code=2).output.split())


def read_run(project):
    return (project / "runs/first/run.toml").read_text()
