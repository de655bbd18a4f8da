"""Gradients of single examples: the engine's, in one pass, and autograd's, one backward pass each, are the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from training_cases import make_net, make_run

from sdi.backends import room
from sdi.errors import AuditError

training, gradients = room("fast.training"), room("fast.training.example_gradients")


@pytest.mark.parametrize("drop", [0.0, 0.5])
def test_the_engine_gives_what_autograd_gives(drop: float) -> None:
    run = make_run("adam", updates=3, model=partial(make_net, drop=drop), seed=5)
    replay = training.Replay(run)
    for k, state in ((0, replay.marks[0]), (2, replay.last)):
        before = replay.placed.vector()
        found = gradients.example_gradients(replay, k, state[0])
        assert (gradients.ENGINES[replay] is None) == (drop > 0)  # examples alone draw other random numbers
        torch.testing.assert_close(found, gradients.by_autograd(replay, k, state[0]), rtol=0, atol=1e-13)
        assert torch.equal(replay.placed.vector(), before)
    assert found.abs().max() > 0.01


def test_what_the_engine_refuses_goes_to_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def refuse(*arguments: Any) -> Any:
        asked.append(1)
        raise AuditError("no")

    replay = training.Replay(make_run(updates=2))
    monkeypatch.setattr(gradients, "by_engine", refuse)
    for k in (0, 1):
        found = gradients.example_gradients(replay, k, replay.weights)
        assert torch.equal(found, gradients.by_autograd(replay, k, replay.weights))
    assert len(asked) == 1
