"""Draws for the statistical verdicts: one set to look for suspicious pairs, one to choose among them, one to judge.

The third set has never been seen when its one pair of each kind is tested, so that looking hard for a bad pair does not
make a good sketch fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.validate.adversary import most_biased, most_varying
from sdi.validate.pairs import KINDS, Pair, known_pairs
from sdi.validate.sketch_under_test import FEW, SEEDS, TINY, Shape, Subject, matrix_of

Array = np.ndarray
NUMBERS = 1 << 23  # held at most by the matrices that the search looks at
FEWEST, LARGEST = 40, 1024  # matrices that a search makes sense with; entries of a parameter that can be written out
SMALL, FEW_MATRICES = 100, 200  # entries up to which more matrices cost little, and how many are looked at beyond
SEEK, CHOOSE, JUDGE = 0, SEEDS // 10, 2 * SEEDS // 10  # where the three sets of seeds begin


@dataclass(frozen=True, eq=False)
class Trial:
    """<S x, S y> of every pair on the draws to choose by, and of those that are suspected on the draws to judge by."""

    shape: Shape
    pairs: list[Pair]
    seen: Float[Array, "N1 pairs"]
    biased: list[int]  # the pair of each kind whose mean was most off, and
    varying: list[int]  # that which varied most
    fresh: dict[int, Float[Array, "N"]]  # by the pair's place
    factor: float  # the claimed bound, for pairs of norm one
    searched: bool  # for adversarial pairs; not if the parameter is too large to write the sketch out as a matrix


@lru_cache(maxsize=8)  # unbiasedness and variance look at the same draws
def trial(subject: Subject, shape: Shape, m: int) -> Trial:
    rng = subject.rng(8)
    pairs = known_pairs(shape, rng)
    few = max(subject.draws // 8, FEWEST)
    first = subject.draw(SEEK, shape, m)
    d = int(np.prod(shape))
    most = few if d <= SMALL else FEW_MATRICES
    sought = min(few, most, NUMBERS // (first.size * d)) if d <= LARGEST else 0
    if sought >= FEWEST:
        S = np.stack([matrix_of(subject.draw(SEEK + k, shape, m)) for k in range(sought)])
        starts = np.stack([np.ones(d), np.eye(d)[0], *rng.standard_normal((2, d))])
        pairs += most_varying(S, np.full(sought, 1 / sought), starts, shape) + most_biased(S, shape)
    seen = products(subject, shape, m, pairs, CHOOSE, few)
    biased = suspects(pairs, np.abs(seen.mean(axis=0) - [p.product for p in pairs]))
    varying = suspects(pairs, seen.var(axis=0))
    asked = sorted({*biased, *varying})
    fresh = products(subject, shape, m, [pairs[i] for i in asked], JUDGE, subject.draws)
    judged = dict(zip(asked, fresh.T, strict=True))
    return Trial(shape, pairs, seen, biased, varying, judged, float(first.variance_factor()), sought >= FEWEST)


def suspects(pairs: list[Pair], score: Float[Array, "pairs"]) -> list[int]:
    """The pair of each kind with the highest score."""
    of_kinds = ([i for i, p in enumerate(pairs) if p.kind == kind] for kind in KINDS)
    return [max(of_kind, key=lambda i: float(score[i])) for of_kind in of_kinds if of_kind]


def products(
    subject: Subject, shape: Shape, m: int, pairs: list[Pair], start: int, n: int, name: str = "core.weight"
) -> Float[Array, "n pairs"]:
    """<S x, S y> of every pair under n draws from `start` on."""
    both = np.stack([x for p in pairs for x in (p.x, p.y)])
    out = np.empty((n, len(pairs)))
    for k in range(n):
        y = np.asarray(subject.draw(start + k, shape, m, name).apply(both), dtype=np.float64)
        out[k] = (y[0::2] * y[1::2]).sum(axis=1)
    return out


def smallest(
    subject: Subject, failing: Callable[[Subject, Shape, int], list[Any]]
) -> tuple[Shape, int, tuple[Any, ...]] | None:
    """The first tiny size at which something fails, too, with its simplest pair: to show, once the verdict is given."""
    few = replace(subject, draws=min(subject.draws, FEW))
    for shape, m in TINY:
        try:
            found = failing(few, shape, m)
        except ValueError:
            continue  # a size that the class refuses
        if found:
            return shape, m, min(found, key=lambda test: test[0].simplicity)
    return None
