"""Estimated standard errors, the default, are made as they are said to be, pair by pair.

    variance = sum over parameters of eta^2 V_p, and rounding's       V_p from a = S g_p and b = S phi_p alone:

    CountSketch    (N^2 + z^2) / m,   N = |a| |b|, z = a.b
    TensorSketch   2/m times the sample variance of Re(A_w B_w*) over 0 < w < m/2, A and B the Fourier transforms, plus
                   c/m^2 (N^2 + z^2); at most f/2 (N^2 + z^2), at least (1 + z^2 / N^2) / 2 of that
    kept whole     0

and the standard error is sqrt(variance) 1.1 / (1 - r), r = sqrt(variance) |score| / (sum over parameters of eta N)^2 up
to 3/4; of a parameter's part (`sdi.parts`), the same of this part alone. That these V are right on average, or bounds,
is for `sample_variance` and `half_bound`; here every one is written out with loops and compared with what
`score_store.score` gives, to 1e-9, in every mode, at even and odd m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.result import score_store as scoring
from sdi.scores import estimated_error as library
from sdi.scores import standard_error as bars
from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch

from ..machinery.scored_runs import MODES, Run, Score, make_run
from ..machinery.statement import Verdict, statement

Array = np.ndarray


def of_parameter(sketch: Any, a: Array, b: Array) -> float:
    """V of one parameter and one pair, by its definition."""
    m = sketch.size
    N2, z = float(a @ a) * float(b @ b), float(a @ b)
    if isinstance(sketch, CountSketch):
        return (N2 + z * z) / m
    if not isinstance(sketch, TensorSketch) or not N2:
        return 0.0
    c = 2 if m % 2 == 0 else 1
    most = (2 * c / m**2 + 6 / m) / 2 * (N2 + z * z)
    w = [w for w in range(1, m) if 2 * w < m]
    if len(w) < 2:
        return most
    turns = np.exp(-2j * np.pi * np.outer(w, np.arange(m)) / m)
    products = ((turns @ a) * (turns @ b).conj()).real
    sample = 2 / m * float(((products - products.mean()) ** 2).sum()) / (len(w) - 1) + c / m**2 * (N2 + z * z)
    return min(max(sample, (1 + z * z / N2) / 2 * most), most)


def by_hand(run: Run, mode: str) -> Array:
    """The standard errors of all scores; train axes before query axes."""
    total: Any = 0
    for checkpoint in run.checkpoints:
        train, query = run.sides(checkpoint)
        left = train.phi if mode in ("train", "matrix") else train.g
        right = query.phi if mode in ("query", "matrix") else query.g
        x, y = (side.reshape(-1, side.shape[-1]) for side in (left, right))
        errors = np.array([[_of_pair(run, checkpoint, a, b) for b in y] for a in x])
        total = total + errors.reshape(*left.shape[:-1], *right.shape[:-1])
    return np.asarray(total)


def _of_pair(run: Run, checkpoint: Any, a: Array, b: Array, only: str = "") -> float:
    variance = score = norms = 0.0
    for block in (block for block in run.blocks if only in ("", block.name)):
        eta, part = checkpoint.eta_of(block.name), slice(block.start, block.stop)
        variance += eta**2 * of_parameter(run.sketch.sketches[block.name], a[part], b[part])
        score += eta * float(a[part] @ b[part])
        norms += eta * float(a[part] @ a[part]) ** 0.5 * float(b[part] @ b[part]) ** 0.5
    r = variance**0.5 * abs(score) / norms**2 if norms else 0.0
    return variance**0.5 * 1.1 / (1 - min(r, 0.75))


def _cases(score: Score, thorough: bool) -> Iterator[tuple[Any, str]]:
    for outside, mode, m in product((False, True), MODES, (4, 7, 8) if thorough else (7, 8)):
        run = make_run(m, outside)
        got = run.scored(score, mode, "estimated")
        for what, found, of in (("stderr", got.stderr, mode), ("tracin_stderr", got.tracin_stderr, "tracin")):
            wanted = by_hand(run, of)
            wanted = wanted.swapaxes(1, 2) if of in ("train", "matrix") else wanted
            same = found.values.shape == wanted.shape and np.allclose(found.values, wanted, rtol=1e-9, atol=0)
            yield same, f"mode {mode!r}, m={m}: {what} is not what it is said to be made of"
    for m in (7, 8):
        yield from _by_parameter(m)


def _by_parameter(m: int) -> Iterator[tuple[Any, str]]:
    run = make_run(m, outside=False)
    for checkpoint in run.checkpoints:
        train, query = (bars.sizes(side, run.dtype, whole=True) for side in run.sides(checkpoint))
        eta = np.array([checkpoint.eta_of(block.name) for block in run.blocks])
        found = {
            kind: bars.standard_error_by_parameter(run.sketch, train, query, eta, kind)
            for kind in ("estimated", "bound")
        }
        for p, block in enumerate(run.blocks):
            pairs = [[(a, b) for b in query.values] for a in train.values]
            wanted = [[_of_pair(run, checkpoint, a, b, block.name) for a, b in row] for row in pairs]
            same = np.allclose(found["estimated"][..., p], wanted, rtol=1e-9, atol=0)
            yield same, f"m={m}: the estimated bar of {block.name} alone is not what it is said to be made of"
            norms = np.outer(train.squares[:, p], query.squares[:, p])
            bound = eta[p] * np.sqrt(bounds.worst_case(run.sketch.sketches[block.name]) * norms)
            yield (
                np.allclose(found["bound"][..., p], bound, rtol=1e-12),
                f"m={m}: the bar of {block.name} is not its bound",
            )


def _with(owner: Any, name: str, value: Any) -> Score:
    """The library's scores with something of the estimate changed."""

    def score(*arguments: Any) -> Any:
        with patch.object(owner, name, value):
            return scoring.score(*arguments)

    return score


def _times(owner: Any, name: str, factor: float) -> Score:
    true: Callable[..., Any] = getattr(owner, name)
    return _with(owner, name, lambda *a: factor * true(*a))


@statement(
    "estimated_error",
    paper="beside the paper: error bars from the sketched numbers",
    method="float64",
    claim=scoring.score,
    mutants={
        "no margin": _with(library, "MARGIN", 1.0),
        "not widened": _with(library, "WIDEST", 0.0),
        "TensorSketch's estimate 1 % too small": _times(TensorSketch, "variance_estimate", 0.99),
        "CountSketch's estimate 1 % too small": _times(CountSketch, "variance_estimate", 0.99),
    },
)
def estimates_are_as_said(score: Score, thorough: bool) -> Verdict:
    """Estimated error bars are made of each sketch's own estimate, widened by 1.1 / (1 - r), in every mode."""
    return Verdict.all(_cases(score, thorough))
