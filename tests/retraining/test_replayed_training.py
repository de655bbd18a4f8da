"""A training run as data: number for number that of torch.optim, replayed bit for bit, refused where it cannot be."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from training_cases import LOOP, OPTIMISERS, UPDATES, LoopedNet, make_net, make_run, net, rows, square_loss

import sdi
from sdi.backends import room

training = room("fast.training")


def torch_optimiser(run: sdi.TrainingRun, model: nn.Module) -> torch.optim.Optimizer:
    o: Any = run.optimiser
    if isinstance(o, sdi.SGD):
        return torch.optim.SGD(
            model.parameters(), lr=1.0, momentum=o.momentum, dampening=o.dampening, weight_decay=o.weight_decay,
            nesterov=o.nesterov,
        )  # fmt: skip
    kind = torch.optim.AdamW if isinstance(o, sdi.AdamW) else torch.optim.Adam
    return kind(model.parameters(), lr=1.0, betas=o.betas, eps=o.eps, weight_decay=o.weight_decay)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("case", [case for case in OPTIMISERS if case != "smooth adam"])
def test_training_is_that_of_torch_bit_for_bit(case: str, dtype: torch.dtype) -> None:
    def loss(model: Any, batch: Any) -> Any:
        return square_loss(model, {k: v.to(dtype) if v.is_floating_point() else v for k, v in batch.items()})

    run = make_run(case, model=lambda: make_net(dtype=dtype), loss=loss)
    model = make_net(dtype=dtype)
    optimiser = torch_optimiser(run, model)
    average = [p.detach().clone() for p in model.parameters()]
    for k, batch in enumerate(run.batches):
        optimiser.zero_grad()
        losses = loss(model, {key: value for key, value in batch.items() if key != "id"})
        (losses.mean() if run.reduction == "mean" else losses.sum()).backward()
        if run.clip is not None:
            torch.nn.utils.clip_grad_norm_(model.parameters(), run.clip)
        optimiser.param_groups[0]["lr"] = run.rates[k]
        optimiser.step()
        if run.memories is not None:
            for a, p in zip(average, model.parameters(), strict=True):
                a.lerp_(p.detach(), 1 - run.memories[k])
    theirs = average if run.memories is not None else [p.detach() for p in model.parameters()]
    ours = training.Replay(run).weights
    assert torch.equal(ours, torch.cat([p.flatten() for p in theirs]))


@pytest.mark.parametrize("held", [0, 1 << 20])  # bytes: none is enough for all states, or the other is
@pytest.mark.parametrize("first", [0, 5, UPDATES - 1])
def test_states_come_backwards_from_the_kept_ones(first: int, held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.fast.training.replay.HELD_BYTES", held)
    replay = training.Replay(make_run("adam"), first)
    made: list[int] = []
    monkeypatch.setattr(replay, "next", lambda k, *state: made.append(k) or training.Replay.next(replay, k, *state))
    states = dict(replay.backwards())
    assert list(states) == list(range(UPDATES - 1, first - 1, -1))
    most = np.sqrt(UPDATES - first)
    assert len(replay.marks) <= 2 * most + 1 if held == 0 else len(replay.marks) == UPDATES - first
    assert len(made) <= (UPDATES - first if held == 0 else 1 + (UPDATES - first) // 4)
    for k in states:
        after = replay.next(k, states[k])
        assert torch.equal(after, states.get(k + 1, replay.last))


def test_a_weight_of_an_example_scales_its_loss_and_a_step_weight_its_step() -> None:
    run = make_run("momentum")
    replay = training.Replay(run)
    start = replay.state_before(0)

    def end(change: sdi.Change, first: int = 0) -> torch.Tensor:
        return replay.retrain(change, first, replay.state_before(first))

    assert torch.equal(end(sdi.Change()), replay.weights)
    assert not torch.equal(end(sdi.Change.leave_out(["t3"])), replay.weights)
    whole = end(sdi.Change.leave_out(["t3", "t5"], 0.25))
    steps = {i: dict.fromkeys((1, 2, 3), 0.25) for i in ("t3", "t5")}
    inside = end(sdi.Change(steps=steps))
    # The steps of the loop are all of the body's gradient; read and head stand outside.
    grads = [room("fast.training.batch_gradient").batch_gradient(run, replay.placed, 0, start[0], c)
             for c in (sdi.Change(), sdi.Change(steps=steps), sdi.Change.leave_out(["t3", "t5"], 0.25))]  # fmt: skip
    body = torch.cat([torch.full((p.numel(),), n.startswith("core")) for n, p in net().named_parameters()])
    assert torch.allclose(grads[1][body], grads[2][body], rtol=0, atol=1e-15)
    assert torch.allclose(grads[1][~body], grads[0][~body], rtol=0, atol=1e-15)
    assert not torch.allclose(whole, inside)
    ones = sdi.Change(steps={"t3": {1: 1.0, 2: 1.0}, "t4": {3: 1.0}})
    assert torch.allclose(end(ones), replay.weights, rtol=0, atol=1e-13)


def test_left_out_examples_are_gone() -> None:
    """Without t3, nothing that t3 holds can matter."""

    def other(k: int) -> dict[str, Any]:
        batch = dict(make_run().batches[k])
        if "t3" in batch["id"]:
            batch["y"] = torch.where(torch.tensor([i == "t3" for i in batch["id"]]), 7.0, batch["y"])
        return batch

    changed = make_run(batches=[other(k) for k in range(UPDATES)])
    ends = []
    for run in (make_run(), changed):
        replay = training.Replay(run)
        ends.append((replay.weights, replay.retrain(sdi.Change.leave_out(["t3"]), 0, replay.state_before(0))))
    assert not torch.equal(ends[0][0], ends[1][0])
    assert torch.equal(ends[0][1], ends[1][1])


def test_dropout_is_replayed_from_the_seed() -> None:
    run = make_run(model=lambda: make_net(drop=0.5), seed=4)
    a, b = training.Replay(run), training.Replay(run)
    assert torch.equal(a.weights, b.weights)
    assert not torch.equal(a.weights, training.Replay(make_run(model=lambda: make_net(drop=0.5), seed=5)).weights)
    assert len(list(a.backwards())) == UPDATES


def test_unrecorded_random_numbers_are_refused_before_training() -> None:
    with pytest.raises(sdi.AuditError, match=r"torch's\) in update 0, which are not recorded; give seed"):
        training.Replay(make_run(model=lambda: make_net(drop=0.5)))

    def noisy(model: Any, batch: Any) -> Any:
        return square_loss(model, batch) * random.random()

    with pytest.raises(sdi.AuditError, match="Python's or NumPy's"):
        training.Replay(make_run(loss=noisy, seed=1))

    def numpy_noise(model: Any, batch: Any) -> Any:
        return square_loss(model, batch) * float(np.random.rand())  # noqa: NPY002

    with pytest.raises(sdi.AuditError, match="Python's or NumPy's"):
        training.Replay(make_run(loss=numpy_noise))
    with pytest.raises(sdi.AuditError, match="other weights at every call"):
        training.Replay(make_run(model=lambda: make_net(seed=random.randrange(10**9))))


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_the_first_update_that_differs_is_named(held: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sdi.fast.training.replay.HELD_BYTES", held)
    calls = 0

    def drifting(model: Any, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        return square_loss(model, batch) * (1.001 if calls > UPDATES + 3 else 1.0)

    replay = training.Replay(make_run(loss=drifting))
    with pytest.raises(sdi.AuditError, match=r"weights after update \d+ \(from 0\) differ"):
        list(replay.backwards())

    def other_each_time(model: Any, batch: Any) -> Any:
        nonlocal calls
        calls += 1
        return square_loss(model, batch) * calls

    with pytest.raises(sdi.AuditError, match=r"after update 0 \(from 0\) differ"):
        training.Replay(make_run(loss=other_each_time))


class Counting(LoopedNet):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, batch: Any) -> torch.Tensor:
        self.seen += 1
        return super().forward(batch)


def test_a_buffer_that_training_changes_is_refused() -> None:
    model = Counting().double()
    with pytest.raises(sdi.AuditError, match="changes the buffer 'seen'"):
        training.Replay(make_run(model=model))
    assert model.seen == 0


@pytest.mark.slow
def test_a_killed_run_goes_on_and_a_finished_one_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = training.Replay(make_run("adamw"))
    monkeypatch.setattr("sdi.fast.training.replay.SAVE_EVERY", 0.0)

    def stop(done: int, of: int) -> None:
        if done == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        training.Replay(make_run("adamw"), 0, tmp_path / "run", stop)
    done: list[int] = []
    again = training.Replay(make_run("adamw"), 0, tmp_path / "run", lambda k, of: done.append(k))
    assert done == list(range(7, UPDATES + 1))
    assert torch.equal(again.last, whole.last)
    assert again.digests == whole.digests
    read = training.Replay(make_run("adamw"), 0, tmp_path / "run", lambda k, of: pytest.fail("trained again"))
    assert torch.equal(read.last, whole.last)
    assert all(torch.equal(a, dict(whole.backwards())[k]) for k, a in read.backwards())
    (tmp_path / "run").write_bytes(b"no tensors")
    with pytest.raises(sdi.StoreError, match="not a file of training states"):
        training.Replay(make_run("adamw"), 0, tmp_path / "run")


def test_a_kept_run_of_other_code_is_found_out(tmp_path: Path) -> None:
    training.Replay(make_run(), 0, tmp_path / "run")
    with pytest.raises(sdi.AuditError, match="differ from those of the first time"):
        training.Replay(make_run(rate=0.11), 0, tmp_path / "run")


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"optimiser": "lion"}, TypeError, r"optimiser must be one of sdi.SGD\(...\)"),
        ({"optimiser": torch.optim.RMSprop([torch.zeros(1)])}, TypeError, "got RMSprop; take over its numbers"),
        ({"optimiser": sdi.Adam, "rate": 1}, TypeError, "optimiser must be one of"),
        ({"rate": [0.1]}, ValueError, "rate must have one number for each of the 14 updates, got 1"),
        ({"rate": -1.0}, ValueError, "rate must be a number of at least 0"),
        ({"clip": 0}, ValueError, "clip must be a number above 0"),
        ({"average": 1.5}, ValueError, "average must be a number from 0 to 1"),
        ({"batches": []}, ValueError, "batches must hold at least one"),
        ({"batches": iter([rows([0])])}, TypeError, "read many times"),
        ({"batches": rows([0])}, ValueError, "got a single batch"),
        ({"batches": [rows([0]), rows([0], seed=1)]}, ValueError, "'t0' with other content in batch 1"),
        ({"reduction": "max"}, ValueError, "reduction must be one of"),
        ({"loop": "core"}, TypeError, "loop must be an sdi.Loop"),
    ],
)
def test_a_run_that_makes_no_sense_is_refused(changes: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        make_run(**changes)


def test_changes_that_make_no_sense_are_refused() -> None:
    for change, words in [
        (sdi.Change.leave_out(["nobody"]), "'nobody', not in training"),
        (sdi.Change({"t1": float("nan")}), "finite"),
        (sdi.Change(steps={"t1": {0: 0.0}}), "at least 1, got 0"),
    ]:
        with pytest.raises(ValueError, match=words):
            change.check(make_run().ids)
    with pytest.raises(ValueError, match="write \\['t1'\\]"):
        sdi.Change.leave_out("t1")


def test_the_model_leaves_as_it_came() -> None:
    model = make_net()
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    training.Replay(make_run(model=model))
    assert all(torch.equal(p, before[n]) and p.requires_grad for n, p in model.named_parameters())
    assert LOOP.step == "core"
