"""Ground truth: what retraining does to a query, whole and with retrained weights in one loop step only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from training_cases import QUERY, UPDATES, make_net, make_run, square_loss

import sdi
from sdi.backends import room
from sdi.inputs.batches import name_examples

training = room("fast.training")
GROUPS = [["t0", "t5"], ["t1"], ["t2", "t3", "t4"]]


def net_loss(weights_at: list[torch.Tensor], outside: torch.Tensor, batch: Any) -> torch.Tensor:
    """The net's loss with other weights in every step, written out by hand: it shares no code with the library."""
    model = make_net()

    def put(vector: torch.Tensor) -> Any:
        parts = torch.split(vector, [p.numel() for p in model.parameters()])
        return {n: v.view(p.shape) for (n, p), v in zip(model.named_parameters(), parts, strict=True)}

    out = put(outside)
    e = batch["x"] @ out["read.weight"].T + out["read.bias"]
    s = torch.zeros_like(e)
    for vector in weights_at:
        w = put(vector)
        s = torch.tanh(s @ w["core.weight"].T + w["core.bias"] + e)
    return ((s @ out["head.weight"].T + out["head.bias"]).squeeze(-1) - batch["y"]).square()


@pytest.mark.slow
def test_the_step_swap_effect_is_that_of_retrained_weights_in_one_step_only() -> None:
    run = make_run("adam")
    effects = sdi.retrain(run, QUERY, GROUPS)
    replay = training.Replay(run)
    base = replay.weights
    for r, group in enumerate(GROUPS):
        other = replay.retrain(sdi.Change.leave_out(group), 0, replay.state_before(0))
        for j, query in enumerate([name_examples(b).batch for b in QUERY]):
            rows = slice(0, 2) if j == 0 else slice(2, 3)
            before = net_loss([base] * 3, base, query)
            for t in range(3):
                steps = [other if s == t else base for s in range(3)]
                real = (net_loss(steps, base, query) - before).numpy()
                np.testing.assert_allclose(effects.steps[r, rows, t], real, rtol=0, atol=1e-14)
            np.testing.assert_allclose(
                effects.by_slot[r, rows, 0], (net_loss([base] * 3, other, query) - before).numpy(), rtol=0, atol=1e-14
            )
            real = (net_loss([other] * 3, other, query) - before).numpy()
            np.testing.assert_allclose(effects.whole[r, rows], real, rtol=0, atol=1e-14)
            np.testing.assert_allclose(effects.base[rows], before.numpy(), rtol=0, atol=1e-14)
    assert effects.weights.sum() == 3 * 12 - 6


@pytest.mark.slow
def test_first_order_step_swap_effects_sum_to_the_effect_of_swapping_everywhere() -> None:
    """For small changes the real effects do, too; for large ones they need not."""
    run = make_run("sgd")
    off = []
    for h in (1.0, 1e-4):
        changes = [sdi.Change.leave_out(g, 1 - h) for g in GROUPS]
        effects = sdi.retrain(run, QUERY, changes)
        size = np.abs(effects.by_slot).max()
        off.append(float(np.abs(effects.by_slot.sum(axis=2) - effects.whole).max() / size))
    np.testing.assert_allclose(effects.first_order, effects.by_slot, rtol=0, atol=1e-3 * size)
    assert off[1] < 1e-3 < 0.05 < off[0]


def test_a_step_that_was_given_no_weights_of_its_own_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdi.fast.training import placed

    put = placed.Placed._put

    def forgets_the_second_step(self: Any, places: Any, weights: Any) -> None:
        if self.count.step != 2:
            put(self, places, weights)

    monkeypatch.setattr(placed.Placed, "_put", forgets_the_second_step)
    with pytest.raises(sdi.AuditError, match="by untied weights differ from the engine's"):
        sdi.retrain(make_run(), QUERY, GROUPS)


@pytest.mark.slow
def test_lost_first_order_effects_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdi.fast.training import query_steps

    right = query_steps.query_gradients

    def lacking(*args: Any, **kwargs: Any) -> Any:
        found = right(*args, **kwargs)
        found.phi[:, 2] *= 0.999
        return found

    monkeypatch.setattr(training, "query_gradients", lacking)
    with pytest.raises(sdi.AuditError, match="first-order step-swap effects of query 'q0' sum to"):
        sdi.retrain(make_run(), QUERY, GROUPS)


def test_training_without_a_steps_gradient_is_training_without_it() -> None:
    run = make_run("sgd")
    effects = sdi.retrain(run, QUERY, [sdi.Change.without_step(["t3"], 2), sdi.Change.leave_out(["t3"])])
    assert np.abs(effects.whole[0]).max() > 0
    assert not np.allclose(effects.whole[0], effects.whole[1])


@pytest.mark.slow
def test_what_was_made_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run("adam")
    told: list[Any] = []
    first = sdi.retrain(run, QUERY, GROUPS[:2], folder=tmp_path, progress=told.append)
    assert str(told[-1]).startswith("comparing: 2 of 2")
    retrain = training.Replay.retrain
    made: list[sdi.Change] = []

    def noted(self: Any, change: sdi.Change, *args: Any) -> Any:
        made.append(change)
        return retrain(self, change, *args)

    monkeypatch.setattr("sdi.fast.training.replay.Stepper.retrain", noted)
    again = sdi.retrain(make_run("adam"), QUERY, GROUPS, folder=tmp_path)
    np.testing.assert_array_equal(again.only([0, 1]).by_slot, first.by_slot)
    assert [set(c.weights) for c in made] == [set(GROUPS[2])]
    sdi.retrain(make_run("adam", rate=0.021), QUERY, GROUPS[:1], folder=tmp_path)
    sdi.retrain(make_run("adam"), QUERY, GROUPS[:1], folder=tmp_path, window=3)
    assert len(made) == 3, "another rate or window is another run"


@pytest.mark.slow
def test_a_killed_retraining_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.fast.training.replay.SAVE_EVERY", 0.0)
    run = make_run("adamw")
    whole = sdi.retrain(run, QUERY, GROUPS[:1])

    def stop(progress: Any) -> None:
        if progress.what == "retraining" and progress.done > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sdi.retrain(run, QUERY, GROUPS[:1], folder=tmp_path, progress=stop)
    assert list(tmp_path.glob("state-*"))
    told: list[Any] = []
    again = sdi.retrain(run, QUERY, GROUPS[:1], folder=tmp_path, progress=told.append)
    assert sum(p.what == "retraining" and p.done > 0 for p in told) <= UPDATES // 2
    np.testing.assert_array_equal(again.by_slot, whole.by_slot)
    assert not list(tmp_path.glob("state-*"))


@pytest.mark.slow
def test_processes_make_the_same_numbers(tmp_path: Path) -> None:
    run = make_run("momentum")
    alone = sdi.retrain(run, QUERY, GROUPS)
    both = sdi.retrain(run, QUERY, GROUPS, processes=2, folder=tmp_path)
    np.testing.assert_array_equal(alone.by_slot, both.by_slot)
    with pytest.raises(ValueError, match=r"processes must be 1 for this run, got 2.*top of a module"):
        sdi.retrain(make_run(model=lambda: make_net()), QUERY, GROUPS, processes=2)


@pytest.mark.slow
def test_effects_are_saved_and_read(tmp_path: Path) -> None:
    effects = sdi.retrain(make_run(loss=square_loss), QUERY, GROUPS, together=True)
    assert effects.whole.shape == (3, 2)
    effects.save(tmp_path / "effects.safetensors")
    again = sdi.Effects.load(tmp_path / "effects.safetensors")
    for name in ("weights", "base", "whole", "by_slot", "first_order"):
        np.testing.assert_array_equal(getattr(again, name), getattr(effects, name))
    assert (again.train_ids, again.query_ids, again.info) == (effects.train_ids, effects.query_ids, effects.info)
    (tmp_path / "bad").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a file of effects"):
        sdi.Effects.load(tmp_path / "bad")


def test_random_groups_are_fixed_by_their_seed() -> None:
    ids = [str(i) for i in range(50)]
    groups = sdi.random_groups(ids, 4, 0.1, seed=1)
    assert groups == sdi.random_groups(ids, 4, 0.1, seed=1) != sdi.random_groups(ids, 4, 0.1, seed=2)
    assert all(len(set(g)) == 5 for g in groups)
    with pytest.raises(ValueError, match=r"share must be a number above 0 and at most 0\.5"):
        sdi.random_groups(ids, 4, 0.9)
