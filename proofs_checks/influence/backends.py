"""The backends' own score functions are the definitions, too: `influence_sums` has looked at those of the core.

Decided exactly, in integers, by the same sums; then on 20,000 columns, which the fast backend multiplies in parts and
adds up, with integers held in float64 (no rounding) and in float32 (their products below 2^24: none either).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.scores import products as scores

from ..machinery.statement import Verdict, statement
from .sums import Influence, exact_sums

Array = np.ndarray
Claim = Mapping[str, Influence]
VERBS = ("tracin", "sdi", "sdi_train", "step_matrix")
WIDTH = 20_000


def of_backend(name: str) -> Influence:
    """A backend's verbs, looked up when they are called: torch is imported only then."""

    def verb(which: str) -> Callable[[Any, Any], Array]:
        return lambda train, query: getattr(room(name), which)(train, query)

    return Influence(**{which: verb(which) for which in VERBS})


BACKENDS: Claim = {name: of_backend(name) for name in ("reference", "fast")}


def _with(**verbs: Any) -> Claim:
    return {**BACKENDS, "fast": replace(BACKENDS["fast"], **verbs)}


def _first_part(train: Any, query: Any) -> Array:
    g, p = (scores.g_of(x)[:, : 1 << 14] for x in (train, query))
    return g @ p.T


def _larger(train: Any, query: Any) -> Array:
    return 1.01 * BACKENDS["fast"].step_matrix(train, query)


def _wide(name: str, claim: Influence) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    train, query = rng.integers(-9, 10, (2, 3, WIDTH)), rng.integers(-9, 10, (3, 2, WIDTH))
    g, p = train.sum(1), query.sum(1)
    wanted = {
        "tracin": (g, p, "id,jd->ij"),
        "sdi": (g, query, "id,jtd->ijt"),
        "sdi_train": (train, p, "isd,jd->ijs"),
        "step_matrix": (train, query, "isd,jtd->ijst"),
    }
    for dtype in ("float64", "float32"):
        for verb, (left, right, sum_) in wanted.items():
            got = getattr(claim, verb)(left.astype(dtype), right.astype(dtype))
            same = np.array_equal(got, np.einsum(sum_, left, right))
            yield same, f"{name}: {verb} of {WIDTH} columns in {dtype} is not its definition"


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    for name, verbs in claim.items():
        yield from ((held, f"{name}: {text}") for held, text in exact_sums(verbs, thorough))
        yield from _wide(name, verbs)


@statement(
    "influence.backends",
    paper="Main text, definition of SDI and of its training-side and matrix forms",
    method="exact",
    claim=BACKENDS,
    mutants={
        "the fast step matrix 1 % too large": _with(step_matrix=_larger),
        "the fast sdi_train is sdi": _with(sdi_train=BACKENDS["fast"].sdi),
        "the first part of the columns only": _with(tracin=_first_part),
    },
)
def backends_score_alike(claim: Claim, thorough: bool) -> Verdict:
    """TracIn, sdi, sdi_train and the step matrix of both backends are their definitions, at any width."""
    return Verdict.all(_cases(claim, thorough))
