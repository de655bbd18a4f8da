"""What the commands refuse: in words, with exit codes, and with nothing written."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from cli_cases import call, edit, made, project

pytestmark = pytest.mark.slow


__all__ = ["made", "project"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"chekpoints": ["x"]}, ["unknown key 'chekpoints'", "did you mean 'checkpoints'"]),
        ({"body": None, "step": None}, ["lacks body, step"]),
        ({"m": "many"}, ["m must be an integer", "'many'", '"none" keeps gradients whole']),
        ({"m": True}, ["m must be an integer, got True"]),
        ({"m": 0}, ["m must be at least 1, got 0 in"]),
        ({"mode": "qurey"}, ["mode must be one of", "'qurey'"]),
        ({"eta": ["a"]}, ["eta must be a list of numbers"]),
        ({"eta": [0.1]}, ["one weight for each of the 2 checkpoints"]),
        ({"checkpoints": ["none/*"]}, ["names no file"]),
        ({"body": ["croe"]}, ["'croe' matches no parameter", "did you mean 'core'"]),
        ({"script": "other.py"}, ["other.py, which does not exist"]),
        ({"shard": 0}, ["shard must be at least 1, got 0 in"]),
        ({"budget": 5}, ["budget must be at least 1 MiB (1048576 bytes), got 5 in"]),
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


def test_a_defect_of_ours_is_exit_code_70_with_its_traceback(project, monkeypatch):
    monkeypatch.setattr("sdi.run.runs.backend_named", {}.__getitem__)  # a KeyError where no code of the user's is
    said = call("featurize", project / "run.toml", code=70)
    assert "Traceback" in said.stderr
    assert said.stderr.endswith("sdi: a defect of sdi, please report it: KeyError: 'fast'\n")
    assert said.stdout == ""


@pytest.mark.parametrize(("error", "code"), [(KeyError("x"), 70), (KeyboardInterrupt(), 130), (MemoryError(), 70)])
def test_what_fails_while_it_is_printed_is_no_failed_check(project, monkeypatch, error, code):
    def fail(*arguments):
        raise error

    call("run", project / "run.toml")
    monkeypatch.setattr("sdi.cli.tables.top_table", fail)
    call("top", project / "runs/first", "--query", "q-0", code=code)


def test_a_failed_audit_is_exit_code_1(project):
    script = (project / "task.py").read_text().replace('model(batch["x"])', '((y := model(batch["x"])) + y.mean())')
    (project / "task.py").write_text(script)
    said = call("run", project / "run.toml", code=1)
    assert "audit failed: rows of a call of" in said.stderr
    assert "mixes examples" in said.stderr


def test_examples_that_the_store_lacks_are_not_scored(project):
    call("featurize", project / "run.toml")
    (project / "task.py").write_text(
        (project / "task.py").read_text().replace('batches("t", 10, 1)', 'batches("t", 12, 1)')
    )
    assert "run `sdi featurize` first" in call("score", project / "run.toml", code=2).stderr


@pytest.mark.parametrize("json", [["--json"], []])
def test_a_pipe_that_is_closed_ends_a_command_quietly_and_a_full_device_with_a_line(project, json):
    call("run", project / "run.toml")
    command = [sys.executable, "-m", "sdi", "top", "runs/first", "--query", "q-0", *json]  # without torch
    closed, out = os.pipe()
    os.close(closed)
    with os.fdopen(out, "w") as pipe:
        done = subprocess.run(command, cwd=project, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (141, "")
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, cwd=project, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "sdi: stdout cannot be written: [Errno 28] No space left on device\n"


def test_featurize_refuses_etas_that_lack_a_body_parameter_before_any_work(project):
    (project / "ckpt/step-2.json").write_text('{"eta": {"core.weight": 0.1}}')
    said = call("featurize", project / "run.toml", code=2).stderr
    assert "eta of step-2.safetensors has none for parameter 'core.bias', only for ['core.weight']" in said
    assert not (project / "runs").exists()


def test_other_settings_than_the_stores_are_refused(project):
    call("featurize", project / "run.toml")
    for command in ("run", "score"):
        assert "other settings" in call(command, edit(project, m=8), code=2).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["score", "run.toml"], "holds no features yet"),
        (["top", "run.toml", "--query", "q-0"], "holds no features yet"),
        (["top", "ckpt", "--query", "q-0"], "has no run.json"),
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


@pytest.mark.parametrize(
    ("changes", "text"),
    [({"spread": 3}, "true or false, got 3"), ({"spread": True, "m": "none"}, "m must be one width")],
)
def test_a_config_that_cannot_be_spread_is_bad_input(project, changes, text):
    assert text in " ".join(call("run", edit(project, **changes), code=2).output.split())
