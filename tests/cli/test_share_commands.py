"""`sdi run` in several processes: parts of an array job, and ranks as torchrun starts them, one of them killed."""

from __future__ import annotations

import json
import os
import sys

import pytest
from cli_cases import SCRIPT, call, call_json, files, made, models_built, project
from share_cases import in_children
from torch.distributed import TCPStore

from sdi.cli import app

__all__ = ["made", "project"]
KILLED_ONCE = """
def query():
    mark, made = Path(__file__).with_name("killed"), list(Path(__file__).parent.rglob("shard-*.json"))
    if os.environ.get("RANK") == "1" and made and not mark.exists():
        mark.write_text(str(len(made)))
        os.kill(os.getpid(), 9)
    yield from batches("q", 3, 2)
"""


def finished(project):
    """What a run leaves; the file that counts models aside."""
    return {name: text for name, text in files(project).items() if name.parts[0] == "runs"}


@pytest.fixture
def whole(project):
    call("run", project / "run.toml")
    found = finished(project)
    (project / "runs").rename(project / "whole")
    return found


@pytest.mark.slow
def test_parts_and_then_a_run_leave_what_one_run_leaves(project, whole):
    said = [call_json("run", project / "run.toml", "--part", f"{k}/2") for k in (2, 1)]
    assert sum(s["made"] for s in said) == 26
    assert all(s["made"] for s in said)
    assert not {"result.safetensors", "run.json", "run.toml"} & {name.name for name in finished(project)}
    assert call("featurize", project / "run.toml", "--part", "1/2").stdout.split(": ")[-1] == (
        "0 features made by part 1 of 2, 26 reused\n"
    )
    assert (call_json("run", project / "run.toml")["made"], finished(project)) == (0, whole)


def test_a_part_that_is_none_is_refused_before_anything_is_run(project):
    for part in ("0/2", "three"):
        said = call("run", project / "run.toml", "--part", part, code=2).output
        assert f"part must be k/n, the k-th of n from 1 to n, such as 3/16, got '{part}'" in said.replace("\n", " ")
    assert models_built(project) == 0


def test_torchrun_deals_out_the_work_itself(project, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "1")
    assert "--part is for jobs without torchrun" in call("run", project / "run.toml", "--part", "1/2", code=2).output


def torchrun(agent, attempt, *command, n=2):
    """A command of `sdi` in n processes with the environment that torchrun gives; exit codes. agent: torchrun's store,
    which is there for all attempts."""

    def rank(k):
        job = {
            "RANK": k,
            "WORLD_SIZE": n,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": agent.port,
            "TORCHELASTIC_RUN_ID": "test",
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_RESTART_COUNT": attempt,
        }
        os.environ.update({name: str(value) for name, value in job.items()})
        try:
            app([*map(str, command), "--json"])
        except SystemExit as ended:
            sys.stdout.flush()
            os._exit(ended.code or 0)

    return in_children([lambda k=k: rank(k) for k in range(n)], seconds=60)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_under_torchrun_a_killed_rank_ends_the_run_and_the_same_command_ends_as_one_process_does(project, whole, capfd):
    (project / "task.py").write_text("import os\n" + SCRIPT + KILLED_ONCE)
    agent = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    assert torchrun(agent, 0, "run", project / "run.toml") == [2, -9]
    assert int((project / "killed").read_text()) > 0
    said = capfd.readouterr()
    assert said.out == ""
    assert "[rank 0 of 2] Traceback" in said.err
    assert "sdi: rank 0 of 2 waited in vain for another, which has ended or hangs; what is stored is kept" in said.err
    assert torchrun(agent, 1, "run", project / "run.toml") == [0, 0]
    assert capfd.readouterr().out.count('"result"') == 1
    assert finished(project) == whole
    (project / "runs/first/result.safetensors").unlink()
    assert torchrun(agent, 2, "score", project / "run.toml") == [0, 0]
    assert finished(project) == whole
    capfd.readouterr()
    for k, source in ((3, "run.toml"), (4, "runs/first"), (5, "runs/first/result.safetensors")):
        asked = ("top", project / source, "--query", "q-1")
        assert torchrun(agent, k, *asked) == [0, 0]
        assert json.loads(capfd.readouterr().out) == call_json(*asked)
