"""The statistics of the Sudoku table find planted effects, and none where there is none, at their stated rates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sudoku_tables import GROUPS, TEST, TRAIN, planted, the_table

from sdi.experiments.base import wilson
from sdi.experiments.sudoku.boards import Boards
from sdi.experiments.sudoku.findings.analysis import at_equal_loss
from sdi.experiments.sudoku.findings.controls import correlations, strangers_of
from sdi.experiments.sudoku.findings.horizon import needed, settled, stopping
from sdi.experiments.sudoku.findings.statistics import (
    better_predictor,
    matched_pairs,
    paired,
    partial_spearman,
    quartile_claim,
    quartiles,
    spearman,
    welch,
)
from sdi.experiments.sudoku.findings.table import Groups, energy_curves, within


def test_the_papers_groups_are_taken_where_boards_are_in_them():
    assert GROUPS.train == [(40, 42), (43, 44), (45, 46)]
    assert GROUPS.test == [(46, 47), (48, 48), (49, 50)]
    few = Groups.of(9, TRAIN, TEST[TEST < 49])
    assert few.test == [(46, 46), (47, 47), (48, 48)]
    assert Groups.of(6, TRAIN, TEST).train != GROUPS.train
    assert within(np.array([45, 46, 47]), (46, 47)).tolist() == [False, True, True]


def test_planted_effects_are_found():
    found = the_table(0, size=0.2, late=0.05)
    assert found["self with blanks"]["rho"] > 0.5
    assert found["C with blanks"]["rho"] > 0.5
    assert found["C with self"]["rho"] > 0.9
    assert found["quartiles"]["found"] == 0
    assert found["self, hard against easy"]["p"] < 1e-3
    assert found["self"]["hard"]["median"] > 1.5 * found["self"]["easy"]["median"]
    for side in ("easy", "hard"):
        on = found["on test"][side]
        assert on["share, hard against easy"]["p"] < 1e-3
        assert on["share per board"]["hard"] > 1.3 * on["share per board"]["easy"]
        assert on["late, hard against easy"]["p"] < 1e-3
        assert on["late"]["hard"] > on["late"]["easy"] + 0.05
    assert found["on test"]["hard"]["boards"] == 20


def test_effects_of_the_other_sign_are_found_with_their_sign():
    found = the_table(1, size=-0.2, late=-0.05)
    assert found["self with blanks"]["rho"] < -0.5
    assert found["on test"]["hard"]["late, hard against easy"]["t"] < -5
    assert found["self, hard against easy"]["t"] < 0


@pytest.mark.slow
def test_no_effect_is_found_where_there_is_none():
    """p-values of 200 tables without effects: below 0.05 in about one of twenty. Each count has a chance below 1e-6 to
    exceed 30 of 200 if the rate is 0.05. Shares are left out: their groups differ in size."""
    counts = dict.fromkeys(("self with blanks", "C with blanks", "C with self", "self", "late"), 0)
    assert stats.binom.sf(30, 200, 0.05) < 1e-6
    for seed in range(200):
        found = the_table(seed, shared=False)
        p = {name: found[name]["p"] for name in ("self with blanks", "C with blanks", "C with self")}
        p |= {"self": found["self, hard against easy"]["p"]}
        p |= {"late": found["on test"]["hard"]["late, hard against easy"]["p"]}
        for name, value in p.items():
            counts[name] += value < 0.05
    assert max(counts.values()) <= 30, counts
    assert the_table(3, shared=False)["quartiles"]["found"] > 0


def test_tests_are_scipys_and_refuse_what_cannot_be_tested():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=30), rng.normal(size=30)
    assert welch(x, 2 * y[:20])["p"] == stats.ttest_ind(x, 2 * y[:20], equal_var=False).pvalue
    assert welch(x, 2 * y[:20])["p"] != stats.ttest_ind(x, 2 * y[:20], equal_var=True).pvalue
    assert paired(x, y)["p"] == stats.ttest_1samp(x - y, 0).pvalue
    assert spearman(x, y)["p"] == stats.spearmanr(x, y).pvalue
    assert spearman(x, np.ones(30)) == {"n": 30, "rho": None, "p": None}
    assert welch(x[:2], y)["p"] is None
    assert paired(x, x)["p"] is None
    with pytest.raises(ValueError, match="x and y must be pairs, got 30 and 29 values"):
        paired(x, y[:29])
    assert quartiles(np.array([]))["median"] is None
    assert wilson(np.array([], dtype=bool))["share"] is None


def test_wilsons_interval_holds_the_truth_as_often_as_it_says():
    """Exactly, over all outcomes of 40 boards: at least 92% at every tenth (the interval is not conservative)."""
    for share in np.arange(0.1, 1.0, 0.1):
        held = 0.0
        for k in range(41):
            one = wilson(np.arange(40) < k)
            held += stats.binom.pmf(k, 40, share) * (one["low"] <= share <= one["high"])
        assert held > 0.92


def test_the_quartile_claim_counts_by_hand():
    order = np.arange(16.0)
    assert quartile_claim(order, order)["found"] == 0
    assert quartile_claim(order, -order) == {"found": 4, "of": 4, "chance": 1.0, "p": 1.0}
    assert quartile_claim(order, np.roll(order, 6))["found"] == 2  # C is 10, 11, 12, 13 there: two of the highest four


def test_partial_correlation_takes_the_confounder_out_and_leaves_what_is_there():
    rng = np.random.default_rng(1)
    loss = rng.normal(size=400)
    blanks, own = loss + 0.5 * rng.normal(size=400), loss + 0.5 * rng.normal(size=400)
    assert spearman(own, blanks)["rho"] > 0.6
    assert abs(partial_spearman(own, blanks, loss)["rho"]) < 0.2
    assert partial_spearman(own + blanks, blanks, loss)["rho"] > 0.5
    p = [
        partial_spearman(rng.normal(size=30) + c, rng.normal(size=30) + c, c)["p"]
        for c in (3 * rng.normal(size=(300, 30)))
    ]
    assert 3 <= np.sum(np.array(p) < 0.05) <= 40  # of 300, 15 expected; a chance below 1e-4 to be outside
    assert partial_spearman(own, blanks, np.ones(400))["rho"] is None
    assert partial_spearman(own, loss, loss)["rho"] is None


def test_pairs_of_equal_loss_tell_a_confounder_from_an_effect():
    rng = np.random.default_rng(2)
    hard = np.arange(400) < 200
    level = np.where(hard, 0.5, 0.0) + rng.normal(size=400)
    noise = np.exp(0.2 * rng.normal(size=400))
    loss = np.exp(level)
    confounded = matched_pairs(loss**2 * noise, hard, ~hard, loss)
    real = matched_pairs(loss**2 * noise * np.where(hard, 2.0, 1.0), hard, ~hard, loss)
    assert confounded["pairs"] > 100
    assert 0.93 < confounded["ratio"] < 1.07
    assert 1.8 < real["ratio"] < 2.3
    assert real["p"] < 1e-6
    assert 0.98 < real["left"] < 1.02
    none = matched_pairs(loss, hard, ~hard, np.where(hard, 1e6, 1.0))
    assert none["pairs"] == 0


def test_equal_losses_of_boards_end_to_end():
    rng = np.random.default_rng(3)
    sdi, _ = planted(0)
    boards = Boards(np.zeros((len(TRAIN), 81), dtype=int), np.zeros((len(TRAIN), 81), dtype=int))
    puzzle = np.ones((len(TRAIN), 81), dtype=int)
    for row, blanks in zip(puzzle, TRAIN, strict=True):
        row[:blanks] = 0
    boards = Boards(puzzle, puzzle)
    loss = np.exp(0.3 * (TRAIN - 43) + 0.3 * rng.normal(size=len(TRAIN)))
    found = at_equal_loss(loss**2 * np.exp(0.1 * rng.normal(size=len(TRAIN))), sdi, boards, loss, GROUPS)
    assert found["self with blanks"]["rho"] > 0.7
    assert abs(found["self with blanks, loss equal"]["rho"]) < 0.3
    assert found["all pairs"]["ratio"] > 2


@pytest.mark.slow
def test_the_better_predictor_is_found_and_a_tie_is_left_open():
    rng = np.random.default_rng(4)
    a, noise = rng.normal(size=300), rng.normal(size=300)
    clear = better_predictor(a, rng.normal(size=300), a + noise, draws=300)
    assert clear["low"] > 0.3
    assert better_predictor(rng.normal(size=300), a, a + noise, draws=300)["high"] < -0.3
    assert stats.binom.sf(5, 20, 0.05) < 1e-3
    wrong = 0
    for _ in range(20):
        a, b, y = rng.normal(size=(3, 60))
        tie = better_predictor(a + y, b + y, y, draws=200)
        wrong += not tie["low"] < 0 < tie["high"]
    assert wrong <= 5
    assert better_predictor(np.ones(9), a[:9], a[:9])["difference"] is None


def test_energy_curves_are_medians_within_bins():
    sdi = np.zeros((2, len(TEST), 3))
    sdi[0, :, 1] = -TEST
    curves = energy_curves(sdi, TEST, GROUPS.test)
    assert [c["boards"] for c in curves] == [20, 10, 20]
    assert [c["median"][1] for c in curves] == [46.5, 48.0, 49.5]
    assert curves[0]["late mass"]["median"] == 1.0  # steps 2 and 3 of 3


def test_stopping_by_hand():
    solution = np.array([[1, 2], [3, 4]])
    said = np.array([[[1, 1], [1, 2], [1, 2], [1, 2]], [[3, 3], [3, 3], [3, 4], [3, 4]]])
    assert needed((said == solution[:, None]).all(axis=2)).tolist() == [2, 3]
    assert settled(said).tolist() == [3, 2]
    energy = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 98.0]])
    found = stopping(energy, said, solution)
    ways = {name: (way["solved"]["share"], way["loops"]) for name, way in found["ways"].items()}
    assert ways == {
        "after all 3": (1.0, 3.0),
        "at the horizon of 50%": (0.5, 2.0),
        "at the horizon of 90%": (0.5, 2.0),
        "at the horizon of 99%": (0.5, 2.0),
        "when 2 answers agree": (0.5, 2.5),
        "as soon as it is solved (needs the solution)": (1.0, 2.5),
    }
    assert found["horizon"]["0.9"]["before it is solved"] == 0.5
    assert found["never solved"] == 0


def test_twins_are_compared_with_strangers():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(100, 40))
    assert correlations(x, x + 0.1 * rng.normal(size=x.shape)).min() > 0.9
    missing = rng.integers(40, 45, 40)
    others = strangers_of(missing, rng)
    assert sorted(others.tolist()) == list(range(40))
    assert (others != np.arange(40)).all()
    assert np.mean(missing[others] == missing) > 0.8
    assert np.abs(correlations(x, x[:, others])).max() < 0.5
