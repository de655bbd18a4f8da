"""A small project for tests of the commands: its script, its config, and ways to call."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

from sdi.cli import app

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
