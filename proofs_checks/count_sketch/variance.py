"""The exact variance of CountSketch: Var <CS x, CS y> = (|x|^2 |y|^2 + (x.y)^2 - 2 sum x_i^2 y_i^2) / m.

Hypotheses: 2-wise independent buckets, 4-wise independent signs, the two independent of one another; here all
functions, which are both. That the weaker families give the same numbers is `independence_suffices`.

Decided exactly: a monomial of the variance has at most four indices, so d = 4 settles every d. For each m the
coefficients are counted over all m^4 buckets and 2^4 signs and compared with the closed form as polynomials
(`biquadratic`). For small m the same coefficients come from the library's own CountSketch, written out for every
h and s. Random integer vectors guard that the closed form is biquadratic, longer ones that zeros change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from sdi.sketch import bounds

from ..machinery.biquadratic import Form, disagreement, points
from ..machinery.moments import (
    Hashes,
    all_buckets,
    all_signs,
    count_sketch_moments,
    every_count_sketch,
    moments_of_matrices,
    no_signs,
)
from ..machinery.statement import Verdict, statement

Array = np.ndarray


class Claim(NamedTuple):
    formula: Callable[[Array, Array, int], Any] = bounds.count_sketch_variance
    signs: Callable[[int], Int[Array, "signs d"]] = all_signs


def _without_cross_term(x: Array, y: Array, m: int) -> Any:
    return ((x * x).sum(-1) * (y * y).sum(-1) - (x * x * y * y).sum(-1)) / m


def _diagonal_once(x: Array, y: Array, m: int) -> Any:
    return bounds.count_sketch_variance(x, y, m) + (x * x * y * y).sum(-1) / m


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    for m in range(1, 33 if thorough else 17):
        moments = count_sketch_moments(Hashes(all_buckets(4, m), claim.signs(4)), m)
        yield from _agrees(moments.variance, claim, m, points(4, m), points(4))
        yield from _agrees(moments.variance, claim, m, *m * rng.integers(-4, 5, (2, 50, 4)))
        if m <= (4 if thorough else 3):
            by_code = moments_of_matrices([sketch.dense() for sketch in every_count_sketch(4, m)])
            yield from _agrees(by_code.variance, claim, m, points(4, m), points(4))
    x, y = rng.integers(-4, 5, (2, 20, 4))
    where = np.array([6, 1, 4, 2])
    padded = np.zeros((2, 20, 9), dtype=np.int64)
    padded[..., where] = x, y
    yield (
        np.array_equal(claim.formula(padded[0], padded[1], 8), claim.formula(x, y, 8)),
        "zeros and order change the claim",
    )


def _agrees(form: Form, claim: Claim, m: int, x: Array, y: Array) -> Iterator[tuple[Any, str]]:
    text = disagreement(form, lambda a, b: claim.formula(a, b, m), (4,), x, y)
    yield not text, f"m={m}, {text}"


@statement(
    "count_sketch.variance",
    paper="Appendix on sketches, CountSketch lemma, variance",
    method="exact",
    claim=Claim(),
    mutants={
        "drops the cross term": Claim(_without_cross_term),
        "takes the diagonal out once only": Claim(_diagonal_once),
        "no sign hash": Claim(signs=no_signs),
    },
)
def count_sketch_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Var <CS x, CS y> = (|x|^2 |y|^2 + (x.y)^2 - 2 sum_i x_i^2 y_i^2) / m for every x, y, d."""
    return Verdict.all(_cases(claim, thorough), f"identity of polynomials, every m up to {32 if thorough else 16}")
