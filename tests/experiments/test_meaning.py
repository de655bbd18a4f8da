"""The meaning experiment in its smallest size: whole, resumable, with a report made of its summary."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from sdi.backends import room
from sdi.experiments.meaning import configuration, run_experiment
from sdi.experiments.meaning.tasks import task_of
from sdi.experiments.meaning.training import training_run


@pytest.mark.parametrize("config", ["small", "sudoku", "language", "smoke", "smoke-sudoku", "smoke-language"])
def test_queries_are_examples_that_training_never_sees(config: str) -> None:
    settings = configuration(config)
    task = task_of(settings)
    train, queries = task.train(settings), task.queries(settings)
    asked = {i for batch in queries for i in batch["id"]}
    assert len(set(train["id"])) == len(train["id"]) == settings.examples
    assert len(asked) == sum(len(batch["id"]) for batch in queries)
    assert not asked & set(train["id"])
    for batch in (train, *queries):
        assert batch["mask"].dtype is torch.float64
        assert (batch["mask"].sum(dim=1) > 0).all()
        assert batch["tokens"].shape == batch["targets"].shape == batch["mask"].shape


def test_a_language_batch_predicts_each_character_of_the_answer_from_those_before() -> None:
    batch = task_of(configuration("language")).train(configuration("language"))
    for name, tokens, targets, mask in zip(*(batch[k] for k in ("id", "tokens", "targets", "mask")), strict=True):
        assert (tokens[1:] == targets[:-1]).all()
        answer = bytes(targets[mask > 0].tolist()).decode()
        whole = answer.endswith("\n")
        assert name.endswith(" " + answer.removesuffix("\n")) if whole else f" {answer}" in name
        assert whole or bool(mask[-1])  # cut at `length` only


def test_boards_of_training_are_the_easiest() -> None:
    settings = configuration("sudoku")
    task = task_of(settings)
    blanks = [batch["mask"].sum(dim=1) for batch in (task.train(settings), *task.queries(settings))]
    for easier, harder in pairwise(blanks):
        assert easier.max() <= harder.min()


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


@pytest.mark.slow
@pytest.mark.parametrize("config", ["smoke-sudoku", "smoke-language"])
def test_other_tasks_run_and_their_derivatives_predict(tmp_path: Path, config: str) -> None:
    settings = configuration(config)
    summary = run_experiment(tmp_path, settings, [0], command="the command")
    judged = summary["judgement"]["scores"]["through training"]
    assert len(judged["steps"]["value"]) == settings.loops
    assert judged["lds"]["value"][0] > 0.5
    assert summary["about"] in (tmp_path / "README.md").read_text()


def test_the_run_replays_and_its_steps_are_the_loops() -> None:
    settings = configuration("smoke")
    training = room("fast.training")
    run = training_run(settings, 3)
    replay = training.Replay(run, run.first(4))
    assert torch.isfinite(replay.weights).all()
    assert np.ptp([len(i) for i in run.ids]) == settings.longest - 2
