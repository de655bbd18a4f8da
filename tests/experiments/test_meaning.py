"""The meaning experiment in its smallest size: whole, resumable, with a report made of its summary."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from sdi.backends import room
from sdi.experiments.meaning import configuration, run_experiment
from sdi.experiments.meaning.noise import noise_of_retraining
from sdi.experiments.meaning.one_task import CHEAP, DERIVATIVE
from sdi.experiments.meaning.removal import KINDS, strengths
from sdi.experiments.meaning.task_section import stands_out, verdict
from sdi.experiments.meaning.tasks import task_of
from sdi.experiments.meaning.training import training_run
from sdi.inputs.batches import read_batches
from sdi.retraining.exact_result import exact_result


@pytest.mark.parametrize("config", ["parity", "sudoku", "language", "smoke", "smoke-sudoku", "smoke-language"])
def test_queries_are_examples_that_training_never_sees(config: str) -> None:
    (settings,) = configuration(config).tasks
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
    (settings,) = configuration("language").tasks
    batch = task_of(settings).train(settings)
    for name, tokens, targets, mask in zip(*(batch[k] for k in ("id", "tokens", "targets", "mask")), strict=True):
        assert (tokens[1:] == targets[:-1]).all()
        answer = bytes(targets[mask > 0].tolist()).decode()
        whole = answer.endswith("\n")
        assert name.endswith(" " + answer.removesuffix("\n")) if whole else f" {answer}" in name
        assert whole or bool(mask[-1])  # cut at `length` only


def test_boards_of_training_are_the_easiest() -> None:
    (settings,) = configuration("sudoku").tasks
    task = task_of(settings)
    blanks = [batch["mask"].sum(dim=1) for batch in (task.train(settings), *task.queries(settings))]
    for easier, harder in pairwise(blanks):
        assert easier.max() <= harder.min()


@pytest.mark.slow
def test_the_experiment_runs_and_goes_on(tmp_path: Path) -> None:
    study = configuration("smoke")
    (settings,) = study.tasks
    said: list[str] = []
    summary = run_experiment(tmp_path, study, [0], said.append, "sdi experiment meaning it --config smoke")
    judged = summary["tasks"][0]["judgement"]["scores"]
    assert list(judged) == [DERIVATIVE, *CHEAP]
    assert len(judged[DERIVATIVE]["steps"]["value"]) == settings.longest
    assert judged[DERIVATIVE]["lds"]["value"][0] > 0.5
    assert min(stands_out(summary["tasks"][0])) > 1
    rows = summary["removed"][0][0]["rows"]
    random = np.mean([row["whole"] for row in rows if row["kind"] == "random"])
    assert all(row["whole"] > random for row in rows if row["kind"] == "whole loss")
    assert set(summary["continued"]["periods"]) == set(summary["continued"]["curves"])
    text = (tmp_path / "README.md").read_text()
    assert ("**met**" if min(judged[DERIVATIVE]["steps"]["value"]) >= 0.9 else "**not met**") in text
    for name in ("figure-parity.png", "continued.png"):
        assert name in text
        assert (tmp_path / name).exists()
    said.clear()
    again = run_experiment(tmp_path, study, [0], said.append, "sdi experiment meaning it --config smoke")
    assert again == summary
    assert not said


@pytest.mark.slow
@pytest.mark.parametrize("config", ["smoke-sudoku", "smoke-language"])
def test_other_tasks_run_and_their_derivatives_predict(tmp_path: Path, config: str) -> None:
    study = configuration(config)
    (task,) = run_experiment(tmp_path, study, [0], command="the command")["tasks"]
    judged = task["judgement"]["scores"][DERIVATIVE]
    assert len(judged["steps"]["value"]) == study.tasks[0].loops
    assert judged["lds"]["value"][0] > 0.5
    assert task["about"][1:] in (tmp_path / "README.md").read_text()


def test_noise_is_what_another_order_does_and_no_less_than_rounding(tmp_path: Path) -> None:
    settings, training = replace(configuration("smoke").tasks[0], updates=6, window=3), room("fast.training")
    run = training_run(settings, 0)
    replay = training.Replay(run, run.first(settings.window))
    queries = list(read_batches(task_of(settings).queries(settings), "query"))
    noise = noise_of_retraining(settings, 0, replay, queries, tmp_path, lambda progress: None)
    assert noise.shape == (2, settings.longest + 1)
    assert ((noise > 1e-17) & (noise < 1e-12)).all()
    (other,) = tmp_path.glob("run-*.safetensors")
    marks = load_file(other)
    weights = [w for name, w in marks.items() if "digest" not in name]
    assert any(w.shape == replay.last.shape and not torch.equal(w, replay.last) for w in weights)


def test_the_verdict_counts_only_steps_that_stand_out() -> None:
    def task(lowest: float, noise: float) -> dict[str, Any]:
        steps = {"value": [0.99, lowest], "low": [0.9, 0.1], "high": [1.0, 1.0]}
        judgement = {
            "scores": {DERIVATIVE: {"steps": steps, "by_run": [[0.9, 0.99, lowest - 0.2]]}},
            "sizes": [[1.0, 1e-3, 1e-3]],
        }
        return {"judgement": judgement, "seeds": [{"noise": [[1e-9, 1e-9, noise]]}], "smooth": True}

    assert "**met** with 1 seed, at 2 of 2" in verdict(task(0.95, 1e-9))
    assert "The lowest of one seed is 0.75" in verdict(task(0.95, 1e-9))
    assert "The lowest of one seed is 0.99" in verdict(task(0.95, 1e-3))
    assert "**not met** with 1 seed, at 2 of 2" in verdict(task(0.85, 1e-9))
    assert "**met** with 1 seed, at 1 of 2" in verdict(task(0.85, 1e-3))
    assert "No window is smooth" in verdict({**task(0.95, 1e-9), "smooth": False})


def test_strings_are_strongest_by_the_steps_that_are_meant() -> None:
    main = np.zeros((3, 2, 4))
    main[0, :, 3], main[1, :, 0], main[2] = 5.0, 4.0, 1.5
    sdi = {"train": ("a", "b", "c"), "query": ("p", "q")}
    result = exact_result(
        sdi["train"], sdi["query"], "query", main, np.zeros((3, 2)), np.array([4, 4]), np.zeros(2), {"window": 1}
    )
    assert {kind: int(by.argmax()) for kind, by in strengths(result).items()} == dict(
        zip(KINDS, (0, 1, 2), strict=True)
    )


def test_the_run_replays_and_its_steps_are_the_loops() -> None:
    (settings,) = configuration("smoke").tasks
    training = room("fast.training")
    run = training_run(settings, 3)
    replay = training.Replay(run, run.first(4))
    assert torch.isfinite(replay.weights).all()
    assert np.ptp([len(i) for i in run.ids]) == settings.longest - 2
