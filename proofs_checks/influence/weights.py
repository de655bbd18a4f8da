"""Every product enters a run's scores with its checkpoint's and its parameter's eta, once.

    score[i, j, ...] = sum over checkpoints k and parameters p of eta_kp <train_ikp, query_jkp>

in all four modes, for the steps and for what is outside the loop. Decided exactly for `score_store.score`, on
integer features and etas that are powers of two, against the sum over checkpoints and columns written out: no rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.result import score_store as scoring
from sdi.store.features import Features

from ..machinery.scored_runs import MODES, Run, Score, make_run
from ..machinery.statement import Verdict, statement

Array = np.ndarray


def definition(run: Run, mode: str) -> tuple[Array, Array]:
    """The scores of every checkpoint, and TracIn over all of them."""
    sums = {"query": "id,jtd->ijt", "train": "isd,jd->ijs", "matrix": "isd,jtd->ijst", "tracin": "id,jd->ij"}
    main, total = [], np.zeros((len(run.ids("train")), len(run.ids("query"))))
    for checkpoint in run.checkpoints:
        train, query = run.sides(checkpoint)
        eta = run.weights(checkpoint)
        left = train.phi if mode in ("train", "matrix") else train.g
        right = query.phi if mode in ("query", "matrix") else query.g
        main.append(np.einsum(sums[mode], left * eta, right))
        total += np.einsum(sums["tracin"], train.g * eta, query.g)
    return np.stack(main), total


def _weighed_by(change: Callable[[Features, Array], Features]) -> Score:
    """The library's scores with another `weigh`."""

    def score(*arguments: Any) -> Any:
        with patch.object(scoring, "weigh", change):
            return scoring.score(*arguments)

    return score


WEIGH = scoring.weigh


def _squared(features: Features, eta: Array) -> Features:
    return WEIGH(features, eta**2)


def _one_for_all(features: Features, eta: Array) -> Features:
    return WEIGH(features, np.full_like(eta, eta[0]))


def _steps_only(features: Features, eta: Array) -> Features:
    weighed = WEIGH(features, eta)
    return Features(weighed.values, features.tau, features.blocks, features.sketch, features.outside, features.ids)


def _cases(score: Score, thorough: bool) -> Iterator[tuple[Any, str]]:
    for outside, mode in product((False, True), MODES):
        run = make_run(8, outside)
        got, (main, total) = run.scored(score, mode), definition(run, mode)
        where = f"mode {mode!r}{', with a part outside' * outside}"
        yield np.array_equal(got.by_checkpoint.values, main), f"{where}: the scores are not the weighted products"
        yield np.array_equal(got.sdi.values, main.sum(0)), f"{where}: checkpoints do not add up"
        yield np.array_equal(got.tracin.values, total), f"{where}: with what is outside, it is not TracIn"


@statement(
    "influence.weights",
    paper="Main text, definition of TracIn and of SDI over checkpoints",
    method="exact",
    claim=scoring.score,
    mutants={
        "eta squared": _weighed_by(_squared),
        "the first parameter's eta for all": _weighed_by(_one_for_all),
        "what is outside the loop is not weighted": _weighed_by(_steps_only),
    },
)
def every_product_is_weighted_once(score: Score, thorough: bool) -> Verdict:
    """A run's scores are sums over checkpoints and parameters of eta times the products, in every mode."""
    return Verdict.all(_cases(score, thorough))
