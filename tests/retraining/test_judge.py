"""The judge: rank correlations with intervals that cover, on scores whose worth is known."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from training_cases import QUERY, make_net, make_run

import sdi
from sdi.retraining.horizon import agreement, metasmoothness
from sdi.retraining.linear_datamodelling import lds, noise_ceiling, predicted_by_scores, query_loss_difference, spearman


def test_rank_correlation_is_scipys_with_ties_and_says_where_nothing_varies() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 5, (20, 3)).astype(float), rng.integers(0, 5, (20, 3)).astype(float)
    np.testing.assert_allclose(spearman(x, y), [spearmanr(x[:, c], y[:, c]).statistic for c in range(3)])
    y[:, 1], x[:, 2] = 4.0, 4.0
    assert np.isnan(spearman(x, y)[1])
    assert spearman(x, y)[2] == 0


@pytest.mark.slow
def test_lds_is_one_for_the_truth_zero_for_noise_minus_one_for_its_negative() -> None:
    rng = np.random.default_rng(1)
    weights = 1.0 - (rng.random((40, 30)) < 0.2)
    truth = rng.normal(size=(30, 6, 3))
    real = predicted_by_scores(truth, weights)
    assert np.all(lds([real], [real]).value == 1)
    assert np.all(lds([-real], [real]).value == -1)
    noise = lds([predicted_by_scores(rng.normal(size=(30, 6, 3)), weights)], [real])
    assert np.all(noise.low < 0.2)
    assert np.all(np.abs(noise.value) < 0.35)
    assert np.all(noise.low < noise.high)


@pytest.mark.slow
def test_the_interval_covers_the_correlation_of_many_runs() -> None:
    """60 draws of 30 runs: the 95% interval holds the value of all 2000 runs in at least 80% of them.

    A bootstrap of few runs covers less than its name; an interval of the standard error's size would cover 68%, so 49
    of 60 or more have a probability of 0.04 then, and the mutant below fails.
    """
    rng = np.random.default_rng(2)
    x = rng.normal(size=(2000, 3, 1))
    y = 0.7 * x + 0.7 * rng.normal(size=x.shape)
    true = spearman(x, y).mean()
    hits = halved = 0
    for _ in range(60):
        rows = rng.choice(2000, 30, replace=False)
        got = lds([x[rows]], [y[rows]])
        hits += got.low[0] <= true <= got.high[0]
        middle, half = (got.low[0] + got.high[0]) / 2, (got.high[0] - got.low[0]) / 8
        halved += middle - half <= true <= middle + half
    assert hits >= 49
    assert halved < 49, "an interval of a quarter of the width must not pass"


def test_query_loss_difference_and_ceiling() -> None:
    top = np.zeros((3, 3, 1)) + np.eye(3)[..., None] * 2
    random = np.full((12, 3, 1), 0.5)
    assert query_loss_difference(top, random).value.tolist() == [1.5]
    rng = np.random.default_rng(3)
    a = rng.normal(size=(20, 2, 2))
    assert np.all(noise_ceiling([a, a + 1e-9 * rng.normal(size=a.shape)]).value > 0.99)
    with pytest.raises(ValueError, match="at least 2 seeds, got 1"):
        noise_ceiling([a])


def test_smoothness_of_straight_and_of_random_answers() -> None:
    rng = np.random.default_rng(4)
    half = rng.normal(size=(6, 5, 4))
    assert metasmoothness(half, 2 * half) == pytest.approx(1)
    assert abs(metasmoothness(half, half + rng.normal(size=half.shape))) < 0.4
    assert metasmoothness(half, np.zeros_like(half)) == pytest.approx(-1)
    assert agreement(half, 3 * half) == pytest.approx(1)
    assert agreement(1e300 * half, 1e-300 * half) == pytest.approx(1)
    assert agreement(half, np.zeros_like(half)) == 0
    wrong_at_one = np.concatenate([half, half, -half], axis=2)
    assert agreement(np.concatenate([half] * 3, axis=2), wrong_at_one) == pytest.approx(-1)  # no mean hides it
    faint = np.concatenate([half, -1e-9 * half], axis=2)
    assert agreement(np.concatenate([half, half], axis=2), faint, noise=1e-7) == pytest.approx(1)


@pytest.mark.slow
def test_the_derivative_is_judged_better_than_noise_whole_and_at_every_step(tmp_path: Path) -> None:
    runs = [make_run("sgd", model=lambda seed=seed: make_net(seed), rate=0.02) for seed in (0, 1)]
    rng = np.random.default_rng(0)
    derivative = [sdi.through_training(run, QUERY, beyond=True) for run in runs]
    noise = rng.normal(size=(12, 3, 3))
    np.save(tmp_path / "noise.npy", noise)
    derivative[0].save(tmp_path / "derivative.safetensors")
    scores: dict[str, Any] = {
        "derivative": derivative,
        "noise": tmp_path / "noise.npy",
        "called": lambda run: derivative[runs.index(run)].tracin.values,
    }
    judged = sdi.judge(runs, QUERY, scores, groups=16, share=0.1, qld=0.1, folder=tmp_path / "runs")
    best = judged.scores["derivative"]
    assert best.lds.value[0] > 0.9
    assert best.steps is not None
    assert np.nanmin(best.steps.value) > 0.8
    assert judged.scores["noise"].lds.value[0] < 0.6
    assert judged.scores["called"].steps is None
    assert judged.scores["called"].lds.value == best.lds.value
    assert best.qld is not None
    assert best.qld.value[0] > judged.scores["noise"].qld.value[0]  # type: ignore[union-attr]
    assert judged.smoothness > 0.9
    assert judged.ceiling is not None
    assert judged.to_dict()["scores"]["derivative"]["lds"]["value"] == best.lds.value.tolist()
    assert best.by_run.shape == (2, 4)
    np.testing.assert_allclose(best.by_run.mean(axis=0), [*best.lds.value, *best.steps.value])
    assert best.lowest == (best.by_run.min(), *np.unravel_index(best.by_run.argmin(), (2, 4)))
    assert judged.scores["called"].by_run.shape == (2, 1)
    assert judged.notes == ()
    far = replace(derivative[1], info={**derivative[1].info, "horizon": {"smooth": 3}})
    far.save(tmp_path / "far.safetensors")
    files = {"far": [tmp_path / "derivative.safetensors", tmp_path / "far.safetensors"]}
    (note,) = sdi.judge(runs, QUERY, files, groups=16, share=0.1, folder=tmp_path / "runs").notes
    assert note.startswith(
        f"far goes back further than it predicts small real changes (3 of {far.info['window']} in run 2 up"
    )
    odd = [replace(one, info={"horizon": {"smooth": "\x1b[2J"}, "window": "z"}) for one in derivative]
    assert sdi.judge(runs, QUERY, {"odd": odd}, groups=16, share=0.1, folder=tmp_path / "runs").notes == ()
    alone = sdi.judge(runs[0], QUERY, {"file": tmp_path / "derivative.safetensors"}, groups=16, share=0.1)
    assert alone.scores["file"].lds.value[0] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"groups": 5}, "groups must be at least 10 for an interval, got 5"),
        ({"qld": 0.0}, "qld must be a share"),
        (
            {"scores": {"odd": np.zeros((2, 2))}},
            r"scores 'odd' must have shape \(12, 3\) or \(12, 3, steps\), got \(2, 2\)",
        ),
        ({"scores": {"odd": "nowhere.npy"}}, "cannot be read"),
        ({"scores": {"odd": []}}, "'odd' must be given for each run, got 0"),
        ({"scores": {"odd": np.zeros((12, 3))}, "together": True}, r"must have shape \(12, 2\)"),
    ],
)
def test_bad_input_is_refused_before_anything_is_retrained(
    arguments: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["sdi.retraining.judge"], "retrain", pytest.fail)
    given = {"scores": {}, "groups": 10, **arguments}
    with pytest.raises(ValueError, match=words):
        sdi.judge(make_run(), QUERY, given.pop("scores"), **given)
