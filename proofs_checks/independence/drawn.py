"""The polynomials that are drawn are as independent as their family: every pattern comes equally often.

That a draw lies in the family of degree 3 does not say that it was drawn from all of it: polynomials of degree 1 lie
there, too, and at the points 0, 1, 2, 3 their four signs always multiply to +1. Over the seeds 0, ..., N - 1 we count

    signs     the 16 patterns of s at four points, for several choices of four
    buckets   the 16 patterns of the two lowest bits of h at two points
    both      the 16 patterns of s and of the lowest bit of h at two points

Statistical: Pearson's chi-square with 15 degrees of freedom, alpha = 1e-6 divided by the number of tests (nominal: that
of the limit, with N / 16 = 62 expected each). Power: a family that never shows half of the patterns has a
chi-square of at least N = 1000, where about 70 is allowed. The seeds are fixed, so a run fails always or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtrc

from sdi.sketch.hashing import bits, buckets_of, draw_buckets, draw_signs, evaluate, field_degree, signs_of

from ..machinery.statement import Verdict, statement

Array = np.ndarray
Draw = Callable[..., Array]  # d, m, family and words
N, ALPHA = 1000, 1e-6
SIZES = ((4, 4), (30, 8), (40, 1024))  # d and m: over GF(4), GF(32) and GF(1024)
FOURS = ((0, 1, 2, 3), (0, 1, -2, -1), (0, -3, -2, -1))
TESTS = len(SIZES) * (len(FOURS) + 2)


class Claim(NamedTuple):
    buckets: Draw = draw_buckets
    signs: Draw = draw_signs


def _with_terms(terms: int, letter: str, of: Callable[[Array, int], Array]) -> Draw:
    """The library's draw with another number of coefficients."""

    def draw(d: int, m: int, family: str, *words: object) -> Array:
        k = field_degree(d, m)
        return of(evaluate(bits(terms, *words, letter) & np.uint64((1 << k) - 1), d, k), m)

    return draw


def _signs(terms: int, letter: str = "s") -> Draw:
    return _with_terms(terms, letter, lambda values, m: signs_of(values))


def evenness(patterns: Array) -> float:
    """The probability of counts as uneven as those of these numbers from 0 to 15, if all are equally likely."""
    counts, each = np.bincount(patterns, minlength=16), len(patterns) / 16
    return float(chdtrc(15, ((counts - each) ** 2).sum() / each))


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    n = 8 * N if thorough else N
    for d, m in SIZES:
        h, s = (
            np.stack([draw(d, m, "polynomial", seed, "drawn") for seed in range(n)]) for draw in claim
        )  # (seeds, points)
        low, sign = h & 1, (1 - s.astype(np.int64)) // 2
        looked_at = {f"signs at {four}": sign[:, four] for four in FOURS}
        looked_at["buckets at (0, 1)"] = np.stack([low[:, 0], low[:, 1], h[:, 0] >> 1 & 1, h[:, 1] >> 1 & 1], axis=1)
        looked_at["signs and buckets at (0, 1)"] = np.concatenate([low[:, :2], sign[:, :2]], axis=1)
        for what, binary in looked_at.items():
            chance = evenness(binary @ np.array([1, 2, 4, 8]))
            yield chance >= ALPHA / TESTS, f"d={d}, m={m}: {what} are uneven, which has probability {chance:.1g}"


@statement(
    "independence.drawn",
    paper="Appendix on sketches, definition of k-wise independence, as implemented",
    method="statistical",
    claim=Claim(),
    mutants={
        "signs with 2 coefficients": Claim(signs=_signs(2)),
        "signs with 3 coefficients": Claim(signs=_signs(3)),
        "buckets with 1 coefficient": Claim(buckets=_with_terms(1, "h", buckets_of)),
        "signs from the words of the buckets": Claim(signs=_signs(2, "h")),
    },
)
def drawn_polynomials_are_independent(claim: Claim, thorough: bool) -> Verdict:
    """Over seeds, all sign patterns at four points and all bucket patterns at two come equally often, as drawn."""
    return Verdict.all(_cases(claim, thorough), f"alpha {ALPHA:g} over {TESTS} tests")
