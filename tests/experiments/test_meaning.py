"""The meaning experiment in its smallest size: whole, resumable, with a report made of its summary."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from sdi.backends import room
from sdi.experiments.meaning import configuration, run_experiment
from sdi.experiments.meaning.parity_run import parity_run, query_batches, split


def test_queries_are_strings_that_training_never_sees() -> None:
    settings = configuration("small")
    train, aside = split(settings)
    asked = {i for batch in query_batches(settings) for i in batch["id"]}
    assert len(set(train)) == settings.strings
    assert asked <= set(aside)
    assert not asked & set(train)
    assert not asked & set(parity_run(configuration("smoke"), 0).ids)


@pytest.mark.slow
def test_the_experiment_runs_and_goes_on(tmp_path: Path) -> None:
    settings = configuration("smoke")
    said: list[str] = []
    summary = run_experiment(tmp_path, settings, [0, 1], said.append, "sdi experiment meaning it --config smoke")
    judged = summary["judgement"]["scores"]
    assert len(judged) == 4
    assert len(judged["through training"]["steps"]["value"]) == settings.longest
    assert judged["through training"]["lds"]["value"][0] > 0.5
    text = (tmp_path / "README.md").read_text()
    assert "through training" in text
    assert ("Met" if min(judged["through training"]["steps"]["value"]) >= 0.9 else "Not met") in text
    assert (tmp_path / "figure.png").exists()
    said.clear()
    again = run_experiment(tmp_path, settings, [0, 1], said.append, "sdi experiment meaning it --config smoke")
    assert again == summary
    assert not [line for line in said if "retraining" in line]


def test_the_run_replays_and_its_steps_are_the_loops() -> None:
    settings = configuration("smoke")
    training = room("fast.training")
    run = parity_run(settings, 3)
    replay = training.Replay(run, run.first(4))
    assert torch.isfinite(replay.weights).all()
    assert np.ptp([len(i) for i in run.ids]) == settings.longest - 2
