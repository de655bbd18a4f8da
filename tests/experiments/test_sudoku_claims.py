"""The paper's claims about Sudoku: planted effects are reproduced, none and opposite ones are not; controls count."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sudoku_tables import TEST, the_table

from sdi.experiments.base import claims_table, wilson
from sdi.experiments.sudoku.findings.claims import judge
from sdi.experiments.sudoku.findings.statistics import spearman
from sdi.experiments.sudoku.report import report

PUBLISHED = Path(__file__).parents[2] / "docs" / "results" / "sudoku"
LOOPS = 4


def a_run(easy=(10, 60, 90, 98, 99, 99, 99, 99), hard=(1, 20, 60, 95, 99, 99, 99, 99), decay=1.0, size=0.2, late=0.05):
    """A run of twice 100 test boards: percent solved after 1 to 8 steps, the sign of late mass with blanks, a table."""

    def curve(*sides):
        return {"curve": [wilson(np.concatenate([np.arange(100) < x for x in at])) for at in zip(*sides, strict=True)]}

    return {
        "panel A": {"all": curve(easy, hard), "46-47": curve(easy), "49-50": curve(hard)},
        "panel B": [{"late mass": {"median": x}} for x in (0.2, 0.3)],
        "predictors": {"late mass": {"a": spearman(decay * TEST, TEST)}},
        "table": the_table(0, size=size, late=late),
    }


def holds(run, controls=None):
    return [one.holds for one in judge(run, controls or {}, LOOPS)]


def test_planted_effects_are_reproduced_and_opposite_ones_are_not():
    assert all(holds(a_run()))
    other = holds(a_run(decay=-1.0, size=-0.2, late=-0.05))
    assert other == [True, True, False, False, False, True, False, False]


@pytest.mark.parametrize(
    ("which", "change"),
    [
        (0, {"hard": (10, 60, 90, 98, 99, 99, 99, 99)}),  # hard boards need no more steps
        (1, {"easy": (10, 60, 70, 75, 99, 99, 99, 99), "hard": (1, 20, 60, 70, 99, 99, 99, 99)}),  # still rising
        (1, {"easy": (1, 98, 98, 98, 99, 99, 99, 99), "hard": (1, 97, 97, 97, 99, 99, 99, 99)}),  # flat before the mean
    ],
)
def test_curves_that_do_not_show_a_claim_do_not_reproduce_it(which, change):
    assert not holds(a_run(**change))[which]
    assert holds(a_run())[:2] == [True, True]


def test_no_effect_is_not_reproduced_though_hard_boards_are_a_larger_group():
    """Shares are of groups: with as much influence a board, the larger group has the larger share."""
    none = the_table(5, shared=False)
    assert judge({**a_run(), "table": none}, {}, LOOPS)[6].holds is False
    on = none["on test"]
    for side in on.values():  # surely larger as a group, and smaller a board
        side["share, hard against easy"] = {"difference": 0.1, "p": 1e-9}
        side["share per board"] = {"easy": 0.2, "hard": 0.1}
    assert judge({**a_run(), "table": none}, {}, LOOPS)[6].holds is False


def test_controls_that_show_the_same_are_named():
    strong, weak = a_run(), the_table(7, shared=False)
    claims = judge(strong, {"same": strong, "other": {"table": weak}, "seconds": 3.0}, LOOPS)
    assert claims[3].without == "same"
    assert claims[0].without == ""
    drawn = claims_table(claims, "here")
    assert "shown by controls, too" in drawn
    assert claims[2].paper in drawn


def test_the_published_page_is_made_of_its_summary():
    assert report(json.loads((PUBLISHED / "summary.json").read_text())) == (PUBLISHED / "README.md").read_text()
