"""A store of float16 or int8 rounds every number, and the error bars of its scores say so.

    x is stored as x + e, |e| <= 2^-11 |x|; as errors that are independent of one another they add to the variance

        sum over parameters of eta^2 (r_train |query|^2 + |train|^2 r_query),   r = 2^-22 |what is stored|^2

and in int8, where the variance of each e is at most (largest / 254)^2 of its parameter's part,

        r = (largest number stored / 254)^2

where a sum over steps that were stored one by one has the squares of all of them, and of what is outside the loop.

Decided twice. The error bars of `score_store.score` in every mode, on features kept whole (whose sketch has no
variance, nor an estimate of it) and sketched, are the root of this and of the sketch's bound, to 1e-12. And features
that the store's own format has rounded give scores whose real errors have a root mean square, over all scores of a
mode, between 0.2 and 1 times the bar, where in float16 each parameter has one number that is not zero: 2^-11 is what
rounding is at most, 0.4 of it usual. (Spread over D numbers, errors are smaller by sqrt(D): the bar is for the worst
case.) In int8, half of a training example's numbers are far below the largest, and act the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from sdi.result import score_store as scoring
from sdi.scores.standard_error import Sizes, sizes
from sdi.sketch import bounds
from sdi.sketch.sketch_map import SketchMap
from sdi.store import int8
from sdi.store.features import Features
from sdi.store.shard_format import decoded, encoded

from ..machinery.scored_runs import MODES, SHAPES, Run, Score, make_run
from ..machinery.statement import Verdict, statement

Array = np.ndarray
HALF: np.dtype[Any] = np.dtype(np.float16)
BYTE: np.dtype[Any] = np.dtype(np.int8)


def _squares(of: Features, x: Array) -> Array:
    """The squared norms of each parameter's part of `x`: (..., P)."""
    return np.stack([np.square(x[..., b.start : b.stop]).sum(-1) for b in of.blocks], axis=-1)


def _added(of: Features, x: Array, dtype: np.dtype) -> Array:
    """What rounding adds to the variance of products with each parameter's part of `x`: (..., P)."""
    if dtype == HALF:
        return 2.0**-22 * _squares(of, x)
    return np.stack([np.square(np.abs(x[..., b.start : b.stop]).max(-1) / 254) for b in of.blocks], axis=-1)


def _side(run: Run, of: Features, side: str, mode: str, resolved: bool) -> tuple[Array, Array]:
    """The squared norms that a score multiplies, and what rounding adds to them."""
    if resolved:
        return _squares(of, of.phi), _added(of, of.phi, run.dtype)
    if mode not in (side, "matrix"):  # summed before it was stored
        return _squares(of, of.g), _added(of, of.g, run.dtype)
    stored = _added(of, of.phi, run.dtype).sum(1) + (0 if of.outside is None else _added(of, of.outside, run.dtype))
    return _squares(of, of.g), stored


def by_hand(run: Run, mode: str, of: str) -> Array:
    """The standard errors of scores `of` a mode, from a run in this mode; train axes before query axes."""
    total: Any = 0
    factor = np.array([bounds.worst_case(run.sketch.sketches[b.name]) for b in run.blocks])
    for checkpoint in run.checkpoints:
        train, query = run.sides(checkpoint)
        eta = np.array([checkpoint.eta_of(b.name) for b in run.blocks])
        x, r = _side(run, train, "train", mode, of in ("train", "matrix"))
        y, q = _side(run, query, "query", mode, of in ("query", "matrix"))
        parts = ((x * factor, y), (r, y), (x, q))
        total = total + np.sqrt(sum(np.tensordot(a * eta**2, b, axes=(-1, -1)) for a, b in parts))
    return np.asarray(total)


def _turned(error: Array, mode: str) -> Array:
    return error.swapaxes(1, 2) if mode in ("train", "matrix") else error


def _formula(score: Score) -> Iterator[tuple[Any, str]]:
    widths = ((4, "bound"), (None, "bound"), (None, "estimated"))
    for dtype, outside, mode, (m, bars) in product((HALF, BYTE), (False, True), MODES, widths):
        run = replace(make_run(m or 8, outside), dtype=dtype)
        if m is None:
            run = _kept(run)
        got = run.scored(score, mode, bars)
        for what, found, of in (("stderr", got.stderr, mode), ("tracin_stderr", got.tracin_stderr, "tracin")):
            wanted = _turned(by_hand(run, mode, of), of)
            same = found.values.shape == wanted.shape and np.allclose(found.values, wanted, rtol=1e-12, atol=0)
            yield same, f"{dtype}, mode {mode!r}, m={m}, {bars}: {what} is not that of the bound and the rounding"


def _kept(run: Run, n: int = 0, seed: int = 0) -> Run:
    """The run with every parameter kept, and features of real numbers; of n examples a side, if n is given."""
    sketch = SketchMap.keep(SHAPES)
    rng = np.random.default_rng(seed)
    features = {}
    for key, of in run.features.items():
        shape = (n or len(of.values), of.values.shape[1])
        outside = None if of.outside is None else rng.standard_normal((shape[0], sketch.size))
        values = rng.standard_normal((*shape, sketch.size))
        if n and run.dtype == HALF:  # one number a parameter
            some = np.isin(np.arange(sketch.size), [b.start for b in sketch.blocks])
            values, outside = values * some, None if outside is None else outside * some
        elif n:  # half of the numbers are far below the largest on one side, and all alike on both
            few = np.arange(sketch.size) % 2 == 1
            values = np.where(few, 3.0 if key[1] == "query" else 0.3 * 3 / 127, values.clip(-3, 3))
            values[..., [b.start for b in sketch.blocks]] = 3.0
        taus = np.full(shape[0], shape[1])
        features[key] = Features(values, taus, sketch.blocks, sketch.label, outside)
    return replace(run, sketch=sketch, features=features)


def _stored(of: Features, dtype: np.dtype, *place: str) -> Features:
    """The features after a store of this type has written and read them."""
    part = encoded(of, dtype, Path("shard"), place)
    outside = None if of.outside is None else decoded(part, "outside", slice(None), of.blocks).astype(np.float64)
    values = decoded(part, "values", slice(None), of.blocks).astype(np.float64)
    return Features(values, of.tau, of.blocks, of.sketch, outside, of.ids)


class _Rounded(Run):
    """Features are rounded when they are read: what a mode does not ask for has been summed before."""

    def read(self, checkpoint: str, side: str, ids: Any) -> Features:
        return _stored(super().read(checkpoint, side, ids), self.dtype, checkpoint, side)


def _real(score: Score) -> Iterator[tuple[Any, str]]:
    for dtype, outside, mode in product((HALF, BYTE), (False, True), MODES):
        exact = _kept(replace(make_run(8, outside), dtype=dtype), n=40)
        rounded = _Rounded(exact.sketch, exact.checkpoints, exact.features, dtype=dtype)
        true, got = replace(exact, dtype=np.dtype(np.float64)).scored(score, mode), rounded.scored(score, mode)
        error = got.sdi.values - true.sdi.values
        bar = got.stderr.values
        ratio = float(np.sqrt(np.mean(np.square(error / bar)))) if (bar > 0).all() else np.inf
        where = f"mode {mode!r}{', with a part outside' * outside}"
        yield 0.2 <= ratio <= 1, f"{where}: the errors of {dtype} are {ratio:.2f} times the bars, root mean square"


def _with(change: Callable[[Sizes, Features, bool], Sizes]) -> Score:
    """The library's scores with other sizes."""

    def score(*arguments: Any) -> Any:
        def wrong(features: Features, dtype: Any, whole: bool) -> Sizes:
            return change(sizes(features, dtype, whole), features, whole)

        with patch.object(scoring, "sizes", wrong):
            return scoring.score(*arguments)

    return score


def _left_out(made: Sizes, features: Features, whole: bool) -> Sizes:
    return made._replace(rounding=None)


def _half_of_it(made: Sizes, features: Features, whole: bool) -> Sizes:
    return made if made.rounding is None else made._replace(rounding=made.rounding / 2)


def _rounded_once(made: Sizes, features: Features, whole: bool) -> Sizes:
    steps = features.values.shape[1] if whole and features.has_steps else 1
    return made if made.rounding is None else made._replace(rounding=made.rounding / steps)


def _left_out_of_estimates(*arguments: Any) -> Any:
    """The scores with rounding left out of the default error bars, which estimate the variance."""
    return (_with(_left_out) if arguments[-1] == "estimated" else scoring.score)(*arguments)


def _only_half_precision(*arguments: Any) -> Any:
    """The scores with the rounding of int8 left out."""
    return (_with(_left_out) if arguments[0].dtype == BYTE else scoring.score)(*arguments)


def _to_the_nearest(*arguments: Any) -> Any:
    """The scores of a store of int8 that rounds to the nearest."""
    with patch.object(int8, "bits", lambda count, *words: np.full(count, 0x7FFF7FFF7FFF7FFF, dtype=np.uint64)):
        return scoring.score(*arguments)


def _one_side(made: Sizes, features: Features, whole: bool) -> Sizes:
    return made if made.rounding is None or len(features.values) != 3 else made._replace(rounding=0 * made.rounding)


@statement(
    "rounding",
    paper="beside the paper: stores of float16 and int8",
    method="float64",
    claim=scoring.score,
    mutants={
        "rounding left out": _with(_left_out),
        "rounding left out where the variance is estimated": _left_out_of_estimates,
        "half of the rounding's variance": _with(_half_of_it),
        "a sum over steps as if rounded once": _with(_rounded_once),
        "the training side's rounding left out": _with(_one_side),
        "the rounding of int8 left out": _only_half_precision,
        "int8 rounded to the nearest": _to_the_nearest,
    },
)
def rounding_is_in_the_error_bars(score: Score, thorough: bool) -> Verdict:
    """Error bars of a float16 or int8 store hold the rounding of both sides, and real errors lie within them."""
    return Verdict.all(case for cases in (_formula, _real) for case in cases(score))
