"""CountSketch keeps inner products in the mean: E <CS x, CS y> = x . y.

Hypotheses: signs that are 2-wise independent; the buckets may be anything that does not depend on the signs.

Decided exactly: the mean is a bilinear form, its coefficient on x_i y_k touches the indices i and k alone, so d = 2
settles every d. The library's CountSketch is written out as a matrix T for every h and every s, and the integer
sum of T^T T must be the number of sketches times the identity, for each m.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sdi.sketch.shipped.count_and_tensor import CountSketch

from ..machinery.moments import every_count_sketch, moments_of_matrices
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Apply = Callable[[CountSketch, Array], Array]


def forgets_signs(sketch: CountSketch, x: Array) -> Array:
    return CountSketch(h=sketch.h, s=np.ones_like(sketch.s), m=sketch.m).apply(x)


def last_one_wins(sketch: CountSketch, x: Array) -> Array:
    y = np.zeros((*x.shape[:-1], sketch.m), dtype=x.dtype)
    y[..., sketch.h] = sketch.s * x
    return y


@statement(
    "count_sketch.unbiased",
    paper="Appendix on sketches, CountSketch lemma, mean",
    method="exact",
    claim=CountSketch.apply,
    mutants={"forgets the signs": forgets_signs, "the last entry of a bucket replaces the others": last_one_wins},
)
def count_sketch_is_unbiased(apply: Apply, thorough: bool) -> Verdict:
    """E <CS x, CS y> = x . y for every x, y, d and m, over all buckets and signs."""
    basis = np.eye(2, dtype=np.int64)
    widths = range(1, 33 if thorough else 17)
    return Verdict.all(
        (moments.unbiased, f"m={m}: E T^T T is {moments.mean.tolist()} / {moments.mean_denominator}")
        for m in widths
        for moments in [moments_of_matrices([apply(sketch, basis).T for sketch in every_count_sketch(2, m)])]
    )
