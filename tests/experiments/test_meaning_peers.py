"""What other libraries are told of a meaning run, and what becomes of their answers; without these libraries."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

from sdi.backends import room
from sdi.experiments.meaning import configuration
from sdi.experiments.meaning.peers import PEERS, by_bergson, peer_scores, scores
from sdi.experiments.meaning.peers.run_on_disk import PARTS, RunOnDisk, logits_of, mean_over_tokens, on_disk
from sdi.experiments.meaning.tasks import task_of
from sdi.experiments.meaning.training import training_run

training: Any = room("fast.training")
SETTINGS = replace(configuration("smoke").tasks[0], updates=6, window=4, checkpoints=2)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, RunOnDisk, Path]:
    folder = tmp_path_factory.mktemp("told")
    run = training_run(SETTINGS, 0)
    on_disk(run, SETTINGS, folder / "runs").save(folder)
    return run, RunOnDisk.load(folder), folder


@pytest.mark.slow
def test_the_run_on_disk_has_the_losses_of_training(told: tuple[Any, RunOnDisk, Path]) -> None:
    """Also of strings of different lengths, which are read out at steps of their own; so has the unrolled model."""
    run, disk, _ = told
    model = run.make_model()
    assert disk.marks == [4, 6]
    assert disk.first == 2
    with torch.no_grad():
        for name, p in model.named_parameters():
            assert torch.equal(p, disk.weights(0)[name])
        for k in (0, 5):
            data = tuple(x[disk.batches[k]] for x in disk.train)
            wanted = run.loss(model, run.batches[k])
            for made in (disk.model(0), by_bergson.unrolled(disk.model(0))):
                torch.testing.assert_close(mean_over_tokens(logits_of(made, data), data), wanted, rtol=1e-12, atol=0)
        for asked, batch in zip(disk.queries, task_of(SETTINGS).queries(SETTINGS), strict=True):
            torch.testing.assert_close(asked[PARTS.index("tokens")], batch["tokens"])


@pytest.mark.slow
def test_bergsons_training_begins_with_our_moments(told: tuple[Any, RunOnDisk, Path]) -> None:
    """In torchopt's state, which lists leaves by sorted name, or by name."""
    run, disk, _ = told
    replay = training.Replay(run, disk.first)
    state = replay.state_before(disk.first)
    wanted = [replay.placed.named(row) for row in state[1:]]
    names = sorted(f"inner.{name}" for name in wanted[0])
    nothing = [torch.zeros(()) for _ in names]
    begun: Any = by_bergson.before_window(
        ((AdamState(nothing, dict.fromkeys(names), nothing),),), run=disk, names=names
    )
    ((made,),) = begun
    assert all(torch.equal(x, wanted[0][n.removeprefix("inner.")]) for x, n in zip(made.mu, names, strict=True))
    assert all(torch.equal(x, wanted[1][n.removeprefix("inner.")]) for n, x in made.nu.items())
    assert {float(x) for x in made.count} == {float(disk.first)}
    assert any(x.any() for x in made.mu)


class AdamState(NamedTuple):
    mu: Any
    nu: Any
    count: Any


def test_modules_of_steps_have_the_name_of_the_looped_one() -> None:
    assert by_bergson.tied("steps.3.core.0.attn.q") == "core.0.attn.q"
    assert by_bergson.tied("head") == "head"


def test_a_peer_that_fails_is_left_out_and_says_why(
    told: tuple[Any, RunOnDisk, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _, folder = told
    asked: list[str] = []

    def made(name: str, folder: Path, file: Path) -> dict[str, Any]:
        asked.append(name)
        if name == "bergson gradients":
            return {"error": "AttributeError: no _inputs"}
        np.save(file, np.ones((len(run.ids), 2)))
        return {"seconds": 1.5}

    monkeypatch.setattr(scores, "_made", made)
    names, said = ("bergson gradients", "dattri TracIn"), []
    for _ in range(2):  # the second time nothing is made again
        found = peer_scores(run, SETTINGS, folder, folder / "runs", said.append, names)
        assert {name: np.load(file).shape for name, file in found.items()} == {"dattri TracIn": (len(run.ids), 2)}
    assert asked == list(names)
    assert said == ["bergson gradients: AttributeError: no _inputs", "dattri TracIn: 1.5 s"]
    assert json.loads((folder / "bergson-gradients.json").read_text())["error"].startswith("AttributeError")


def test_every_peer_has_a_way() -> None:
    from sdi.experiments.meaning.peers import by_dattri

    assert list(PEERS) == [*by_dattri.WAYS, *by_bergson.WAYS]
