"""Less independence is not enough: one step less for any hash breaks a theorem, with an exact witness each.

    buckets 1-wise (constant polynomials)   the variance, and the bound: all entries meet at once
    signs 3-wise (degree 2)                 the variance, and even the bound: x = y = ones(4), m = 2
    signs 1-wise (constant polynomials)     the mean

Each weaker family is run through in full over GF(4), is shown to be exactly as independent as it is said to be, and
its exact mean or variance is shown to differ from the theorem's. Where the bound is said to break, the variance of
the witness exceeds it.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from sdi.sketch import bounds

from ..machinery.moments import count_sketch_moments, tensor_sketch_moments
from ..machinery.statement import Verdict, statement
from .suffices import Family, is_uniform, of_degrees


class Weaker(NamedTuple):
    """A family, how independent it exactly is, and what it breaks: the mean, the variance, the bound."""

    family: Family
    buckets_wise: int
    signs_wise: int
    breaks: tuple[str, ...]


CLAIM = {
    "1-wise buckets": Weaker(of_degrees(0, 3), 1, 4, ("variance", "bound")),
    "3-wise signs": Weaker(of_degrees(1, 2), 2, 3, ("variance", "bound")),
    "1-wise signs": Weaker(of_degrees(1, 0), 2, 1, ("mean",)),
}


def _with(name: str, weaker: Weaker) -> dict[str, Weaker]:
    return {**CLAIM, name: weaker}


def _cases(claim: dict[str, Weaker], thorough: bool) -> Iterator[tuple[Any, str]]:
    for name, weaker in claim.items():
        for m in (2, 4):
            hashes = weaker.family(2, m)
            where = f"{name}, m={m}"
            for k in range(1, 5):
                uniform = is_uniform(hashes.buckets, m, k) if k <= 2 else None
                if uniform is not None:
                    yield uniform == (k <= weaker.buckets_wise), f"{where}: {k}-wise buckets: {uniform}"
                uniform = is_uniform((1 - hashes.signs) // 2, 2, k)
                yield uniform == (k <= weaker.signs_wise), f"{where}: {k}-wise signs: {uniform}"
            ones = np.ones((1, 4), dtype=np.int64)
            vector = count_sketch_moments(hashes, m)
            matrix = tensor_sketch_moments(hashes, hashes, m)
            for moments, x, exact, factor in (
                (vector, ones, bounds.count_sketch_variance(ones, ones, m), 2 / m),
                (matrix, np.ones((1, 16), dtype=np.int64), None, bounds.tensor_sketch_factor(m)),
            ):
                if exact is None:
                    exact = bounds.tensor_sketch_variance(x.reshape(1, 4, 4), x.reshape(1, 4, 4), m)
                form = moments.variance
                variance = Fraction(int(form.numerators(x, x)[0, 0]), form.denominator)
                broken = {
                    "mean": not moments.unbiased,
                    "variance": variance != Fraction(float(exact[0])),
                    "bound": variance > Fraction(factor) * x.size**2,
                }
                for what in weaker.breaks:
                    text = f"{where}, ones({x.size}): the {what} stands (variance {variance}, exact {exact[0]})"
                    yield broken[what], text


@statement(
    "independence.needed",
    paper="Appendix on sketches, hypotheses of both lemmas",
    method="exact",
    claim=CLAIM,
    mutants={
        "4-wise signs break it too": _with("3-wise signs", Weaker(of_degrees(1, 3), 2, 4, ("variance",))),
        "2-wise buckets break it too": _with("1-wise buckets", Weaker(of_degrees(1, 3), 2, 4, ("bound",))),
        "3-wise signs break the mean": _with("3-wise signs", Weaker(of_degrees(1, 2), 2, 3, ("mean",))),
    },
)
def less_is_not_enough(claim: dict[str, Weaker], thorough: bool) -> Verdict:
    """1-wise buckets and 3-wise signs break the variance and its bound, 1-wise signs the mean: exact witnesses."""
    return Verdict.all(_cases(claim, thorough))
