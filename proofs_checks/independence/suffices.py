"""2-wise buckets and 4-wise signs are all the theorems need, and the library's polynomials have exactly that.

A polynomial of degree 1 with uniform coefficients over GF(2^k) takes any two points to uniform independent values, one
of degree 3 any four; low bits of uniform elements are uniform buckets for m = 2^b, the lowest a uniform sign.

Decided exactly by running through the whole family with the library's `evaluate`: over GF(4) and GF(8), every pair
of points meets every pair of buckets equally often, every four points all 16 sign patterns. Then the means and
variances under these families, counted over all their members, must be the closed forms as polynomials in X and Y,
for CountSketch and TensorSketch. What `draw_buckets` and `draw_signs` return must lie in the enumerated family;
that it comes from all of it is `independence_drawn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import combinations, product
from math import prod
from typing import Any

import numpy as np
from jaxtyping import Int

from sdi.sketch import bounds
from sdi.sketch.hashing import buckets_of, draw_buckets, draw_signs, evaluate, field_degree, signs_of

from ..machinery.biquadratic import disagreement, points
from ..machinery.moments import Hashes, Moments, count_sketch_moments, tensor_sketch_moments
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Family = Callable[[int, int], Hashes]


@cache
def polynomials(k: int, terms: int) -> Int[Array, "polynomials points"]:
    """Every polynomial with this many coefficients over GF(2^k), at every point of the field."""
    coefficients = product(range(2**k), repeat=terms)
    return np.stack([evaluate(np.array(c, dtype=np.uint64), 2**k, k) for c in coefficients])


def of_degrees(buckets: int, signs: int) -> Family:
    """The family with buckets and signs of these degrees."""

    def family(k: int, m: int) -> Hashes:
        h, s = polynomials(k, buckets + 1), polynomials(k, signs + 1)
        return Hashes(buckets_of(h, m), signs_of(s).astype(np.int64))

    return family


def integers_modulo(k: int, m: int) -> Hashes:
    """What one would get from integers modulo 2^k, which are no field."""
    x = np.arange(2**k)

    def values(terms: int) -> Array:
        coefficients = np.array(list(product(range(2**k), repeat=terms)))
        return (coefficients @ x[None, :] ** np.arange(terms)[:, None] % 2**k).astype(np.uint64)

    return Hashes(buckets_of(values(2), m), signs_of(values(4)).astype(np.int64))


def is_uniform(values: Int[Array, "functions points"], size: int, wise: int) -> bool:
    """Whether any `wise` points take all size^wise value tuples equally often; values from 0 to size - 1."""
    for where in combinations(range(values.shape[1]), wise):
        code = values[:, where] @ size ** np.arange(wise)
        counts = np.bincount(code, minlength=size**wise)
        if not (counts * size**wise == len(values)).all():
            return False
    return True


def _cases(family: Family, thorough: bool) -> Iterator[tuple[Any, str]]:
    for k, m in [(2, 2), (2, 4), (3, 2), (3, 4), (3, 8)]:
        where = f"GF({2**k}), m={m}"
        hashes = family(k, m)
        yield is_uniform(hashes.buckets, m, 2), f"{where}: buckets are not 2-wise uniform"
        yield is_uniform((1 - hashes.signs) // 2, 2, 4), f"{where}: signs are not 4-wise uniform"
        chosen = list(combinations(range(2**k), 4))
        for four in map(list, chosen if thorough else chosen[:: max(1, len(chosen) // 3)]):
            part = Hashes(hashes.buckets[:, four], hashes.signs[:, four])
            text = _differs(count_sketch_moments(part, m), bounds.count_sketch_variance, (4,), m)
            yield not text, f"{where}, points {four}, CountSketch: {text}"
            text = _differs(tensor_sketch_moments(part, part, m), bounds.tensor_sketch_variance, (4, 4), m)
            yield not text, f"{where}, points {four}, TensorSketch: {text}"
        members = [{tuple(row) for row in table.tolist()} for table in hashes]
        d = 2**k
        if field_degree(d, m) == k:
            for seed in range(50):
                h, s = (draw(d, m, "polynomial", "member", seed) for draw in (draw_buckets, draw_signs))
                yield tuple(h.tolist()) in members[0], f"{where}, seed {seed}: buckets drawn are not of the family"
                yield tuple(s.tolist()) in members[1], f"{where}, seed {seed}: signs drawn are not of the family"


def _differs(counted: Moments, formula: Callable[[Array, Array, int], Any], shape: tuple[int, ...], m: int) -> str:
    n = prod(shape)
    text = disagreement(counted.variance, lambda x, y: formula(x, y, m), shape, points(n, m), points(n))
    return text if counted.unbiased else "biased"


@statement(
    "independence.suffices",
    paper="Appendix on sketches, definition of k-wise independence and both lemmas' hypotheses",
    method="exact",
    claim=of_degrees(1, 3),
    mutants={
        "constant buckets": of_degrees(0, 3),
        "signs of degree 2": of_degrees(1, 2),
        "integers modulo 2^k instead of a field": integers_modulo,
    },
)
def polynomial_families_suffice(family: Family, thorough: bool) -> Verdict:
    """Degree-1 buckets are exactly 2-wise, degree-3 signs exactly 4-wise, and give the exact mean and variance."""
    return Verdict.all(_cases(family, thorough))
