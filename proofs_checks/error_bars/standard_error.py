"""The standard error of a score is the bound of the lemmas: variances add over parameters, deviations over checkpoints.

    stderr = sum over checkpoints k of sqrt(sum over parameters p of eta_kp^2 f_p |S train_kp|^2 |S query_kp|^2)

Against `bounds.concatenation_bound` and `bounds.checkpoint_bound`, which other statements decide, to 1e-12: for
`sdi.result.score_store.score` in every mode, on features with a part outside the loop and without.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.result import score_store as scoring
from sdi.scores.standard_error import standard_error
from sdi.sketch import bounds
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from ..machinery.scored_runs import MODES, Run, Score, make_run
from ..machinery.statement import Verdict, statement

Array = np.ndarray


def _norms(features: Features, of: Array) -> dict[str, Array]:
    return {b.name: np.linalg.norm(of[..., b.start : b.stop], axis=-1) for b in features.blocks}


def by_bounds(run: Run, mode: str) -> Array:
    """The square root of the bound on the variance, train axes before query axes."""
    variances = []
    for checkpoint in run.checkpoints:
        train, query = run.sides(checkpoint)
        left = train.phi if mode in ("train", "matrix") else train.g
        right = query.phi if mode in ("query", "matrix") else query.g
        weighted = _norms(train, left * run.weights(checkpoint))
        x = {name: norm.reshape(*norm.shape, *[1] * (right.ndim - 1)) for name, norm in weighted.items()}
        variances.append(bounds.concatenation_bound(run.sketch, x, _norms(query, right)))
    return np.sqrt(bounds.checkpoint_bound(np.stack(variances), np.ones(len(variances))))


def _scored_with(error: Any) -> Score:
    """The library's scores with another `standard_error`."""

    def score(*arguments: Any) -> Any:
        with patch.object(scoring, "standard_error", error):
            return scoring.score(*arguments)

    return score


def _half(*arguments: Any) -> Array:
    return standard_error(*arguments) / 2


def _unweighted(sketch: SketchMap, train: Any, query: Any, eta: Array, bars: str) -> Array:
    return standard_error(sketch, train, query, np.ones_like(eta), bars)


def _deviations_add(sketch: SketchMap, train: Any, query: Any, eta: Array, bars: str) -> Array:
    parts = [eta * (np.arange(len(eta)) == k) for k in range(len(eta))]
    return np.sum([standard_error(sketch, train, query, part, bars) for part in parts], axis=0)


def _cases(score: Score, thorough: bool) -> Iterator[tuple[Any, str]]:
    for outside, mode, m in product((False, True), MODES, (4, 8)):
        run = make_run(m, outside)
        got = run.scored(score, mode)
        for what, found, of in (("stderr", got.stderr, mode), ("tracin_stderr", got.tracin_stderr, "tracin")):
            wanted = by_bounds(run, of)
            wanted = wanted.swapaxes(1, 2) if of in ("train", "matrix") else wanted
            same = found.values.shape == wanted.shape and np.allclose(found.values, wanted, rtol=1e-12, atol=0)
            yield same, f"mode {mode!r}, m={m}: {what} is not the bound"


@statement(
    "standard_error",
    paper="Stepwise lemma, as the error bar of a score",
    method="float64",
    claim=scoring.score,
    mutants={
        "half of it": _scored_with(_half),
        "without eta": _scored_with(_unweighted),
        "deviations of parameters add": _scored_with(_deviations_add),
    },
)
def standard_errors_are_the_bound(score: Score, thorough: bool) -> Verdict:
    """A score's standard error is the root of the variance bound: over parameters and checkpoints, in every mode."""
    return Verdict.all(_cases(score, thorough))
