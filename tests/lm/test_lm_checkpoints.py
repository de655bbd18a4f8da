"""Checkpoints with their eta, of one's own loop and of Trainer's folders, in one file or in shards."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import sdi
from sdi import lm


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))


def folder(path: Path, step: int = 20, shards: int = 1, logged: dict[int, float] | None = None) -> Path:
    path.mkdir(parents=True)
    weights = model().state_dict()
    if shards == 1:
        save_file(weights, path / "model.safetensors")
    else:
        names = list(weights)
        parts = {name: f"model-0000{1 + k % shards}-of-0000{shards}.safetensors" for k, name in enumerate(names)}
        for file in set(parts.values()):
            save_file({n: weights[n] for n in names if parts[n] == file}, path / file)
        (path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": parts}))
    if logged is not None:
        history = [{"step": s, "learning_rate": rate} for s, rate in logged.items()] + [{"step": step, "train_loss": 1}]
        (path / "trainer_state.json").write_text(json.dumps({"global_step": step, "log_history": history}))
    return path


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_trainers_folder_is_a_checkpoint(tmp_path: Path, shards: int) -> None:
    for step in (9, 10):
        place = folder(tmp_path / f"checkpoint-{step}", step, shards, {5: 0.5, step: 0.25 / step})
        if step == 10 and shards == 1:
            save_file({**model().state_dict(), "0.bias": torch.ones(2)}, place / "model.safetensors")
        elif step == 10:
            file = sorted(place.glob("*.safetensors"))[0]
            save_file({name: t + 1 for name, t in load_file(file).items()}, file)
    points = sdi.find_checkpoints(tmp_path / "checkpoint-*")
    assert [p.path.name for p in points] == ["checkpoint-9", "checkpoint-10"]
    assert [p.eta for p in points] == [0.25 / 9, 0.025]
    assert points[0].key.startswith("checkpoint-9-")
    assert points[0].fingerprint != points[1].fingerprint
    found = points[0].weights()
    assert all(torch.equal(found[name], value) for name, value in model().state_dict().items())
    assert sdi.find_checkpoints(str(tmp_path / "checkpoint-9"))[0] == points[0]


def test_the_rate_is_that_of_the_step_or_the_optimisers_or_the_last_logged(tmp_path: Path) -> None:
    one = folder(tmp_path / "checkpoint-20", 20, logged={10: 0.5, 15: 0.375, 30: 0.125})
    assert sdi.find_checkpoints(one)[0].eta == 0.375
    torch.save({"state": {}, "param_groups": [{"lr": 0.3}, {"lr": 0.3}]}, one / "optimizer.pt")
    assert sdi.find_checkpoints(one)[0].eta == 0.3
    (one / "trainer_state.json").unlink()
    assert sdi.find_checkpoints(one)[0].eta == 0.3
    (one / "optimizer.pt").unlink()
    with pytest.raises(ValueError, match=r"^no eta for checkpoint .*checkpoint-20: give eta="):
        sdi.find_checkpoints(one)
    assert sdi.find_checkpoints(one, eta=[0.7])[0].eta == 0.7
    (one / "trainer_state.json").write_text("[]")
    with pytest.raises(ValueError, match="is not the state of a Trainer"):
        sdi.find_checkpoints(one)


@pytest.mark.parametrize(
    ("index", "words"),
    [
        ("{}", "is not the index of a checkpoint in several files"),
        ('{"weight_map": {"w": "../other.safetensors"}}', "which is not a file in its folder"),
        ('{"weight_map": {"w": "gone.safetensors"}}', "names 'gone.safetensors', which is not a file in its folder"),
        ('{"weight_map": {}}', "names no file"),
    ],
)
def test_an_index_that_leads_elsewhere_is_refused(tmp_path: Path, index: str, words: str) -> None:
    one = folder(tmp_path / "checkpoint-20", logged={20: 0.5})
    save_file({"w": torch.ones(1)}, tmp_path / "other.safetensors")
    (one / "model.safetensors.index.json").write_text(index)
    with pytest.raises(ValueError, match=words):
        sdi.find_checkpoints(one)


def test_weights_in_two_files_and_files_that_hold_none_are_refused(tmp_path: Path) -> None:
    one = folder(tmp_path / "checkpoint-20", shards=2, logged={20: 0.5})
    first, second = sorted(one.glob("*.safetensors"))
    kept = second.read_bytes()
    save_file({**load_file(second), next(iter(load_file(first))): torch.ones(1)}, second)
    (point,) = sdi.find_checkpoints(one)
    with pytest.raises(ValueError, match=r"^checkpoint .*checkpoint-20 holds '0.weight' in two files$"):
        point.weights()
    second.write_bytes(kept[:20])
    with pytest.raises(ValueError, match=rf"^checkpoint .*{second.name} is not a safetensors file: "):
        point.weights()


def test_the_callback_takes_the_rate_before_the_schedule_changes_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)  # as if it were not installed
    with pytest.raises(
        ImportError, match=r"^checkpoint_callback needs transformers: pip install 'sdi-influence\[hf\]'$"
    ):
        lm.checkpoint_callback(tmp_path, every=1)
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(TrainerCallback=object))
    with pytest.raises(ValueError, match=r"^every must be at least 1, got 0$"):
        lm.checkpoint_callback(tmp_path, every=0)
    net, callback = model(), lm.checkpoint_callback(tmp_path, every=2)
    optimiser = torch.optim.SGD(net.parameters(), lr=1.0)
    for step in range(1, 6):
        optimiser.param_groups[0]["lr"] = 1 / step
        callback.on_pre_optimizer_step(None, None, None, model=net, optimizer=optimiser)
        optimiser.param_groups[0]["lr"] = 0.0
        with torch.no_grad():
            net[0].weight += 1
        callback.on_step_end(None, SimpleNamespace(global_step=step), None, model=net)
    assert [(p.path.name, p.eta) for p in sdi.find_checkpoints(tmp_path / "*")] == [
        ("step-2.safetensors", 0.5),
        ("step-4.safetensors", 0.25),
    ]


def test_a_folder_that_changes_during_the_run_is_refused(tmp_path: Path) -> None:
    one = folder(tmp_path / "checkpoint-20", shards=2, logged={20: 0.5})
    (point,) = sdi.find_checkpoints(one)
    file = sorted(one.glob("*.safetensors"))[0]
    save_file({name: t + 1 for name, t in load_file(file).items()}, file)
    with pytest.raises(ValueError, match="changed while the run was going"):
        point.load_into(model(), sdi.backend("fast"))


def test_a_checkpoint_of_ones_own_loop_holds_its_eta(tmp_path: Path) -> None:
    net = model()
    net[1].weight = net[0].weight  # tied
    optimiser = torch.optim.SGD(net.parameters(), lr=0.125)
    path = lm.save_checkpoint(tmp_path / "a" / "step-1.safetensors", net, optimiser)
    (point,) = sdi.find_checkpoints(path)
    assert point.eta == 0.125
    other = model()
    other[1].weight = other[0].weight
    nn.init.zeros_(other[0].weight)
    point.load_into(other, sdi.backend("fast"))
    assert torch.equal(other[0].weight, net[0].weight)
    groups: Any = [{"params": net[0].parameters(), "lr": 0.5}, {"params": [net[1].bias], "lr": 0.25}]
    (point,) = sdi.find_checkpoints(lm.save_checkpoint(path, net, torch.optim.SGD(groups)))
    assert point.eta == {"0.weight": 0.5, "0.bias": 0.5, "1.bias": 0.25}
    with pytest.raises(ValueError, match=r"^path must end in .safetensors, got .*x.pt$"):
        lm.save_checkpoint(tmp_path / "x.pt", net, 0.1)
