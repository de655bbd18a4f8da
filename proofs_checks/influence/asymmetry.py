"""SDI is asymmetric in z and z', TracIn is not: resolving the query's steps is not resolving the training example's.

    tracin[i, j] = tracin[j, i]      sdi[i, j, t] = sdi_train[j, i, t]      matrix[i, j, s, t] = matrix[j, i, t, s]

hold for all examples, while sdi[i, j, t] = sdi[j, i, t] does not: it fails by more than 1e-3 of the trajectory for
every two examples of the cases of which one takes more than one step, although their sums over steps are one number.
On the diagonal, z = z', the two sides are one. In float64, to 1e-13 of the sum of the products' sizes, on step
gradients of the reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.store.features import Features

from ..machinery.looped_models import Case, cases
from ..machinery.statement import Verdict, statement
from .sums import OURS, Influence

Array = np.ndarray


def _symmetric(train: Features, query: Features) -> Array:
    """The mean of both directions: it still sums to TracIn."""
    return (OURS.sdi(train, query) + OURS.sdi_train(train, query)) / 2


def _upper(train: Features, query: Features) -> Array:
    return np.triu(OURS.tracin(train, query))


def _unturned(train: Features, query: Features) -> Array:
    return OURS.step_matrix(train, query).swapaxes(2, 3)


def _of(claim: Influence, case: Case) -> Iterator[tuple[Any, str]]:
    reference = room("reference")
    whole = reference.featurize(case.model, reference.token_cross_entropy, case.batch, loop=case.config.loop())
    size = np.abs(whole.phi).sum(1)
    close = 1e-13 * (size @ size.T)
    sdi, train, matrix, tracin = (
        getattr(claim, verb)(whole, whole) for verb in ("sdi", "sdi_train", "step_matrix", "tracin")
    )

    def same(x: Array, y: Array) -> bool:
        return bool((np.abs(x - y).T <= close.T).all())

    yield same(tracin, tracin.T), f"{case.name}: TracIn is not symmetric"
    yield (
        same(sdi, train.swapaxes(0, 1)),
        f"{case.name}: the training side is not the query side of the other direction",
    )
    yield same(matrix, matrix.transpose(1, 0, 3, 2)), f"{case.name}: the step matrix does not turn with its examples"
    yield same(sdi.sum(-1), sdi.sum(-1).T), f"{case.name}: the two directions do not sum to one number"
    for i, j in combinations(range(len(tracin)), 2):
        gap, length = np.linalg.norm(sdi[i, j] - sdi[j, i]), np.linalg.norm(sdi[i, j])
        alike = max(case.readout[i], case.readout[j]) == 1  # one step each: nothing to resolve
        yield alike or gap > 1e-3 * length, f"{case.name}: SDI is symmetric in examples {i} and {j}"
    for i in range(len(tracin)):
        yield (
            same(sdi[i, i][None, None], train[i, i][None, None]),
            f"{case.name}: the two sides of {i} with itself differ",
        )


def _cases(claim: Influence, thorough: bool) -> Iterator[tuple[Any, str]]:
    for case in cases(thorough):
        yield from _of(claim, case)


@statement(
    "influence.asymmetry",
    paper="Main text, remark after the definition of SDI",
    method="float64",
    claim=OURS,
    mutants={
        "both directions averaged": replace(OURS, sdi=_symmetric, sdi_train=_symmetric),
        "the training side is the query side": replace(OURS, sdi_train=OURS.sdi),
        "TracIn of one direction only": replace(OURS, tracin=_upper),
        "train and query steps swapped in the matrix": replace(OURS, step_matrix=lambda a, b: _unturned(a, b)[::-1]),
    },
)
def sdi_is_asymmetric(claim: Influence, thorough: bool) -> Verdict:
    """SDI(z, z') is not SDI(z', z), whose steps are the training side's, although both sum to one TracIn."""
    return Verdict.all(_cases(claim, thorough))
