"""TensorSketch keeps inner products in the mean: E <T X, T Y> = <X, Y>.

Hypotheses: rows' and columns' signs are each 2-wise independent, and independent of one another and of the buckets.

Decided exactly: the mean is bilinear and its coefficient on X_ij Y_kl touches two rows and two columns, so 2 x 2
settles every size. For small m the library's TensorSketch is written out for every (h, h', s, s'); for the
others the coefficients are counted over all of them. The mean must be the identity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..machinery.broken_sketches import last_one_wins
from ..machinery.moments import (
    Hashes,
    Moments,
    all_buckets,
    all_signs,
    every_count_sketch,
    every_hash,
    moments_of_matrices,
    no_signs,
    tensor_sketch_moments,
)
from ..machinery.statement import Verdict, statement

Array = np.ndarray


class Claim(NamedTuple):
    apply: Callable[[TensorSketch, Array], Array] = TensorSketch.apply
    column_signs: Callable[[int], Int[Array, "signs d"]] = all_signs


def _row_signs_only(sketch: TensorSketch, X: Array) -> Array:
    return sketch.apply(X * sketch.cols.s)


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    basis = np.eye(4, dtype=np.int64).reshape(4, 2, 2)
    for m in range(1, 5 if thorough else 4):
        pairs = product(every_count_sketch(2, m), repeat=2)
        by_code = moments_of_matrices([claim.apply(TensorSketch(rows, cols), basis).T for rows, cols in pairs])
        yield _is_identity(by_code, f"m={m}, every sketch written out")
    for m in range(1, 65 if thorough else 33):
        cols = Hashes(all_buckets(2, m), claim.column_signs(2))
        yield _is_identity(tensor_sketch_moments(every_hash(2, m), cols, m), f"m={m}")


def _is_identity(moments: Moments, where: str) -> tuple[Any, str]:
    return (
        moments.unbiased,
        f"{where}: the mean's coefficients are {moments.mean.tolist()} / {moments.mean_denominator}",
    )


@statement(
    "tensor_sketch.unbiased",
    paper="Appendix on sketches, TensorSketch lemma, mean",
    method="exact",
    claim=Claim(),
    mutants={
        "signs of the rows only": Claim(apply=_row_signs_only),
        "no sign hash for the columns": Claim(column_signs=no_signs),
        "the last entry of a bucket replaces the others": Claim(apply=last_one_wins),
    },
)
def tensor_sketch_is_unbiased(claim: Claim, thorough: bool) -> Verdict:
    """E <T X, T Y> = <X, Y> for all matrices of every size and every m, over all buckets and signs."""
    return Verdict.all(_cases(claim, thorough), f"every m up to {64 if thorough else 32}")
