"""The derivative through training: conserved, that of real retraining, and that of a witness without autograd."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from training_cases import OPTIMISERS, QUERY, UPDATES, make_net, make_run, rows

import sdi
from sdi.backends import backend, room
from sdi.inputs.batches import read_batches
from sdi.inputs.looped_config import LoopedConfig

H = 1e-4
training = room("fast.training")


def central_differences(run: sdi.TrainingRun, query: Any, window: int | None = None) -> tuple[Any, Any]:
    """d / d w_i of each query's loss with the retrained weights in one slot (n, q, slots), and everywhere (n, q)."""
    changes = [sdi.Change({i: 1 + sign * H}) for i in run.ids for sign in (1, -1)]
    effects = sdi.retrain(run, query, changes, window=window)
    by_slot = (effects.by_slot[::2] - effects.by_slot[1::2]) / (2 * H)
    return by_slot, (effects.whole[::2] - effects.whole[1::2]) / (2 * H)


@pytest.mark.slow
@pytest.mark.parametrize("case", OPTIMISERS)
def test_the_derivative_is_that_of_real_retraining_and_conserved(case: str) -> None:
    run = make_run(case)
    result = sdi.through_training(run, QUERY, beyond=True)
    by_slot, whole = central_differences(run, QUERY)
    size = np.abs(by_slot).max()
    assert size > 1e-3
    np.testing.assert_allclose(-result.sdi.values, by_slot[:, :, 1:], rtol=1e-5, atol=1e-5 * size)
    np.testing.assert_allclose(-result.outside.values, by_slot[:, :, 0], rtol=1e-5, atol=1e-5 * size)
    np.testing.assert_allclose(-result.tracin.values, whole, rtol=1e-5, atol=1e-5 * size)
    total = sdi.through_training(run, QUERY, mode="tracin", probes=0)
    np.testing.assert_allclose(result.tracin.values, total.sdi.values, rtol=0, atol=1e-8 * size)


@pytest.mark.slow
@pytest.mark.parametrize("case", ["momentum", "adam", "averaged"])
def test_train_side_and_matrix_sum_to_the_same_and_are_those_of_step_weights(case: str) -> None:
    run = make_run(case)
    whole = sdi.through_training(run, QUERY, mode="tracin", probes=0).sdi.values
    query = sdi.through_training(run, QUERY, probes=0)
    train = sdi.through_training(run, QUERY, mode="train", probes=0)
    matrix = sdi.through_training(run, QUERY, mode="matrix", probes=0)
    close = {"rtol": 0, "atol": 1e-8 * np.abs(whole).max()}
    for result in (query, train, matrix):
        np.testing.assert_allclose(result.tracin.values, whole, **close)
    # Body calls are all inside the loop, but read, head and the average have gradients outside: what is left is theirs.
    phi_only = sdi.through_training(make_run(case, model=frozen_but_core), QUERY, mode="matrix", probes=0)
    np.testing.assert_allclose(
        phi_only.sdi.values.sum(axis=2),
        sdi.through_training(make_run(case, model=frozen_but_core), QUERY, probes=0).sdi.values,
        **close,
    )
    changes = [sdi.Change(steps={"t3": {s: 1 + sign * H}}) for s in (1, 2, 3) for sign in (1, -1)]
    effects = sdi.retrain(run, QUERY, changes)
    real = (effects.whole[::2] - effects.whole[1::2]) / (2 * H)
    np.testing.assert_allclose(-train.sdi.sel(train="t3").values.T, real, rtol=1e-5, atol=1e-5 * np.abs(real).max())
    swapped = (effects.steps[::2] - effects.steps[1::2]) / (2 * H)  # (train step, q, query step)
    np.testing.assert_allclose(
        -matrix.sdi.sel(train="t3").values.transpose(1, 0, 2), swapped, rtol=1e-5, atol=1e-5 * np.abs(swapped).max()
    )


def frozen_but_core() -> Any:
    model = make_net()
    for name, p in model.named_parameters():
        p.requires_grad_(name.startswith("core"))
    return model


@pytest.mark.slow
def test_a_window_is_that_of_changes_in_the_last_updates_only() -> None:
    run = make_run("adamw")
    result = sdi.through_training(run, QUERY, window=5, beyond=True)
    by_slot, _ = central_differences(run, QUERY, window=5)
    np.testing.assert_allclose(-result.sdi.values, by_slot[:, :, 1:], rtol=1e-5, atol=1e-5 * np.abs(by_slot).max())
    late = set(run.batches[-1]["id"]) | set(run.batches[-2]["id"])
    last_two = sdi.through_training(run, QUERY, window=2, probes=0)
    moved = {i for i in run.ids if np.any(last_two.sdi.sel(train=i).values)}
    assert moved == late
    assert not np.allclose(result.sdi.values, sdi.through_training(run, QUERY, probes=0).sdi.values)


@pytest.mark.slow
def test_ragged_loops_repeated_examples_and_means_of_queries() -> None:
    batches = [rows([0, 1, 2, 1], ragged=True), rows([3, 1, 4], ragged=True), rows([2, 5], ragged=True)] * 2
    run = make_run("adam", batches=batches)
    query = [rows([6, 7, 8], seed=9, name="q", ragged=True)]
    result = sdi.through_training(run, query, probes=0)
    by_slot, _ = central_differences(run, query)
    np.testing.assert_allclose(-result.sdi.values, by_slot[:, :, 1:], rtol=1e-5, atol=1e-5 * np.abs(by_slot).max())
    assert result.tau.values.tolist() == [2, 3, 2]
    assert not result.sdi.values[:, 0, 2].any()
    mean = sdi.through_training(run, query, together=True, probes=0)
    np.testing.assert_allclose(mean.sdi.values[:, 0], result.sdi.values.mean(axis=1), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_adjoints_do_not_depend_on_their_batches() -> None:
    run = make_run("adam")
    a, b = (sdi.through_training(run, QUERY, probes=0, chunk=chunk).sdi.values for chunk in (1, 100))
    np.testing.assert_allclose(a, b, rtol=0, atol=1e-12 * np.abs(a).max())


@pytest.mark.slow
def test_the_fast_derivative_agrees_with_the_reference_on_a_transformer() -> None:
    config = LoopedConfig(vocab=5, classes=3, d=4, heads=2, tau=2, length=3, injection="add")
    reference, fast = backend("reference"), room("fast")
    model: Any = room("reference").LoopedTransformer.init(config, seed=1)
    rng = np.random.default_rng(0)

    def batch(ids: list[int], name: str) -> dict[str, Any]:
        draw = np.random.default_rng([1, len(name)])
        tokens, targets = draw.integers(0, 5, (9, 3)), draw.integers(0, 3, (9, 3))
        return {"id": [f"{name}{i}" for i in ids], "tokens": tokens[ids], "targets": targets[ids]}

    batches = [batch(rng.choice(5, 2, replace=False).tolist(), "t") for _ in range(6)]
    query, rates, momentum = batch([6, 7], "query"), [0.5 / (k + 1) for k in range(6)], 0.9
    loss = room("reference").token_cross_entropy
    plain = {k: v for k, v in query.items() if k != "id"}
    found = room("reference").through_training(model, loss, batches, rates, plain, momentum)
    met = list(dict.fromkeys(i for b in batches for i in b["id"]))
    order = [met.index(i) for i in sorted(met)]
    theirs = type(found)(found.steps[order], found.outside[order])

    def tensors(b: dict[str, Any]) -> dict[str, Any]:
        return {k: v if k == "id" else torch.as_tensor(v) for k, v in b.items()}

    run = sdi.TrainingRun(
        fast.LoopedTransformer(config, model.weights), fast.token_cross_entropy, config.loop(),
        [tensors(b) for b in batches], sdi.SGD(momentum=momentum), rates,
    )  # fmt: skip
    ours = sdi.through_training(run, [tensors(query)], probes=0)
    assert reference.__name__ == "sdi.reference"
    size = np.abs(theirs.steps).max()
    np.testing.assert_allclose(-ours.sdi.values, theirs.steps, rtol=0, atol=1e-10 * size)
    np.testing.assert_allclose(-ours.outside.values, theirs.outside, rtol=0, atol=1e-10 * np.abs(theirs.outside).max())


@pytest.mark.slow
def test_step_gradients_are_the_engines_and_a_model_that_hides_weights_is_found_out() -> None:
    run = make_run()
    replay = training.Replay(run)
    queries = list(read_batches(QUERY, "query"))
    found = training.query_gradients(run, replay.placed, replay.weights, queries)
    model = make_net()
    with torch.no_grad():
        for name, p in replay.placed.named(replay.weights).items():
            model.get_parameter(name).copy_(p)
    engine = backend("fast").featurize(model, run.loss, queries[0].batch, loop=run.loop)
    body = torch.cat([torch.full((p.numel(),), n.startswith("core")) for n, p in model.named_parameters()])
    np.testing.assert_allclose(found.phi[:2, 1:, body].numpy(), engine.phi, rtol=0, atol=1e-14)
    np.testing.assert_allclose(found.phi.sum(dim=1), found.whole, rtol=0, atol=1e-14)

    class Hiding(type(model)):  # type: ignore[misc]
        """Uses a kept copy of its core's weight in the first step."""

        def forward(self, batch: Any) -> Any:
            self.core(torch.zeros(1, 4, dtype=torch.float64))
            return super().forward(batch)

    odd = Hiding().double()
    odd.load_state_dict(make_net().state_dict())
    shifted = sdi.through_training(make_run(model=odd), QUERY, probes=0)
    assert shifted.sdi.shape[2] == 4, "the extra call is a step of its own, in both ways of counting"


@pytest.mark.slow
def test_scores_beyond_the_smooth_horizon_are_refused() -> None:
    smooth = make_run("sgd", rate=0.01)
    result = sdi.through_training(smooth, QUERY)
    assert result.info["horizon"]["smooth"] == UPDATES
    assert result.info["horizon"]["agreements"][-1] > 0.95
    rough = make_run("adam", rate=1.0, model=lambda: make_net(tau=6), updates=40)
    with pytest.raises(sdi.SmoothnessError, match=r"last 40 updates does not predict .* smooth horizon \d+ updates"):
        sdi.through_training(rough, QUERY)
    beyond = sdi.through_training(rough, QUERY, beyond=True)
    assert beyond.info["horizon"]["smooth"] < 40
    short = max(beyond.info["horizon"]["smooth"], 1)
    assert sdi.through_training(rough, QUERY, window=short, beyond=True).info["window"] == short


def test_results_say_what_they_cost_and_are_saved(tmp_path: Any) -> None:
    result = sdi.through_training(make_run(), QUERY, probes=0, window=6)
    assert result.info["cost"]["adjoints"] == 12
    assert result.info["cost"]["multiple"] > 0
    result.save(tmp_path / "scores.safetensors")
    again = sdi.load(tmp_path / "scores.safetensors")
    np.testing.assert_array_equal(again.sdi.values, result.sdi.values)
    assert again.top(2, query="q0").rows[0].score >= again.top(2, query="q0").rows[1].score


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"window": 0}, "window must be a number of updates from 1 to 14"),
        ({"window": 15}, "window must be a number of updates from 1 to 14"),
        ({"mode": "both"}, "mode must be one of"),
        ({"probes": -1}, "probes must be an integer of at least 0"),
        ({"chunk": 0}, "chunk must be at least 1"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sdi.through_training(make_run(), QUERY, **arguments)
    with pytest.raises(TypeError, match=r"run must be an sdi.TrainingRun"):
        sdi.through_training("run", QUERY)  # type: ignore[arg-type]
