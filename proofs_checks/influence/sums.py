"""Influences add up: over training steps, over query steps, to TracIn.

    sum_s matrix[i, j, s, t] = sdi[i, j, t]          sum_t sdi[i, j, t]       = tracin[i, j]
    sum_t matrix[i, j, s, t] = sdi_train[i, j, s]    sum_s sdi_train[i, j, s] = tracin[i, j]

each a sum over checkpoints k with weight eta_k of inner products of g = sum_t phi_t and phi_t. Where body calls
outside the loop add to g, each sum lacks exactly the inner product with that part.

Decided exactly, in integers, for the functions of sdi/scores/products.py on Features of integers, against the
definitions with every sum written out; and in float64 on step gradients of the reference for two checkpoints, train
and query of different tau, with a coda in the body but outside the loop, to 1e-13 of the sum of the products' sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.loop import Loop
from sdi.scores import products as scores
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

from ..machinery.looped_models import SIZES, make_batch, make_model
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Score = Callable[[Features, Features], Array]
Pair = tuple[Features, Features]  # train and query at one checkpoint


@dataclass(frozen=True)
class Influence:
    """The scores of one checkpoint, and their sum over checkpoints."""

    tracin: Score = scores.tracin
    sdi: Score = scores.sdi
    sdi_train: Score = scores.sdi_train
    step_matrix: Score = scores.step_matrix
    over_checkpoints: Callable[[Sequence[Any], Sequence[float]], Array] = scores.over_checkpoints


OURS = Influence()


def _swapped(train: Features, query: Features) -> Array:
    return scores.step_matrix(train, query).swapaxes(2, 3)


def _steps_only(train: Features, query: Features) -> Array:
    return scores.tracin(train.phi.sum(axis=1), query.phi.sum(axis=1))


def _last_weight_dropped(values: Sequence[Any], eta: Sequence[float]) -> Array:
    return scores.over_checkpoints(values, [*eta[:-1], 1.0])


def _with_outside(side: Sequence[Features]) -> Array:
    """phi of every checkpoint with what is outside the loop as one more step: (k, n, tau + 1, D)."""
    parts = [np.zeros_like(f.phi[:, 0]) if f.outside is None else f.outside for f in side]
    return np.stack([np.concatenate([f.phi, part[:, None]], axis=1) for f, part in zip(side, parts, strict=True)])


def _sums(claim: Influence, pairs: Sequence[Pair], eta: Sequence[float], eps: float) -> Iterator[tuple[bool, str]]:
    train, query = (_with_outside(side) for side in zip(*pairs, strict=True))
    whole = np.einsum("k,kisd,kjtd->ijst", np.asarray(eta), train, query)
    size = np.einsum("k,kisd,kjtd->ij", np.abs(eta), np.abs(train), np.abs(query))
    got = {
        name: claim.over_checkpoints([getattr(claim, name)(*pair) for pair in pairs], eta)
        for name in ("tracin", "sdi", "sdi_train", "step_matrix")
    }
    left = {  # what is outside, the last row or column of the whole, is added to each sum
        "the matrix over training steps": ("sdi", got["step_matrix"].sum(2) + whole[:, :, -1, :-1]),
        "the matrix over query steps": ("sdi_train", got["step_matrix"].sum(3) + whole[:, :, :-1, -1]),
        "sdi over steps": ("tracin", got["sdi"].sum(2) + whole[:, :, :, -1].sum(2)),
        "sdi_train over steps": ("tracin", got["sdi_train"].sum(2) + whole[:, :, -1, :].sum(2)),
    }
    definitions = {
        "tracin": whole.sum((2, 3)),
        "sdi": whole.sum(2)[..., :-1],
        "sdi_train": whole.sum(3)[..., :-1],
        "step_matrix": whole[:, :, :-1, :-1],
    }

    def same(x: Array, y: Array) -> bool:
        if x.shape != y.shape:
            return False
        error = np.abs(x - y).T  # axes reversed: those of size, i and j, come last
        return bool((error <= eps * size.T).all())

    where = f"{len(eta)} checkpoints, tau {train.shape[2] - 1} and {query.shape[2] - 1}"
    for what, (name, total) in left.items():
        yield same(total, got[name]), f"{where}: {what} is not {name}"
    for name, wanted in definitions.items():
        yield same(got[name], wanted), f"{where}: {name} is not its definition"


def _integers(rng: np.random.Generator, n: int, tau: int, D: int, outside: bool) -> Features:
    sketch = SketchMap.keep({"w": (D,)})
    values = rng.integers(-9, 10, (n, tau, D))
    values[0, -1] = 0
    taus = np.array([max(tau - 1, 1)] + [tau] * (n - 1))
    extra = rng.integers(-9, 10, (n, D)) if outside else None
    return Features(values, taus, sketch.blocks, sketch.label, extra)


def exact_sums(claim: Influence, thorough: bool) -> Iterator[tuple[bool, str]]:
    """All sums and definitions, on integers."""
    rng = np.random.default_rng(0)
    taus = [(3, 3), (2, 4), (1, 2)] + [(8, 5), (6, 6)] * thorough
    for (tau, tau_query), eta, outside in product(taus, [(1,), (3, -2, 5)], [False, True]):
        pairs = [(_integers(rng, 2, tau, 5, outside), _integers(rng, 3, tau_query, 5, outside)) for _ in eta]
        yield from _sums(claim, pairs, eta, eps=0.0)


def _floats(claim: Influence, thorough: bool) -> Iterator[tuple[bool, str]]:
    reference = room("reference")
    config = LoopedConfig(**SIZES, tau=3, coda=1, injection="concat")
    loop = Loop(body=("inject", "core", "coda"), step="inject", end="coda")
    train, query = make_batch(config, 1), make_batch(replace(config, tau=5), 2, n=2)
    pairs = []
    for k in range(5 if thorough else 2):
        model = make_model(config, k)
        a, b = (reference.featurize(model, reference.token_cross_entropy, x, loop=loop) for x in (train, query))
        pairs.append((a, b))
    yield pairs[0][0].outside is not None, "the coda is not outside the loop"
    yield from _sums(claim, pairs, [0.3 / (k + 1) for k in range(len(pairs))], eps=1e-13)


@statement(
    "influence.sums",
    paper="Main text, definition of SDI and of its training-side and matrix forms",
    method="exact",
    claim=OURS,
    mutants={
        "train and query steps swapped in the matrix": replace(OURS, step_matrix=_swapped),
        "sdi resolves the training steps": replace(OURS, sdi=scores.sdi_train),
        "g without what enters outside the loop": replace(OURS, tracin=_steps_only),
        "the last checkpoint's weight dropped": replace(OURS, over_checkpoints=_last_weight_dropped),
    },
)
def influences_sum_to_tracin(claim: Influence, thorough: bool) -> Verdict:
    """The step matrix sums to sdi and to sdi_train, and each of these, with what is outside the loop, to TracIn."""
    return Verdict.all(chain(exact_sums(claim, thorough), _floats(claim, thorough)))
