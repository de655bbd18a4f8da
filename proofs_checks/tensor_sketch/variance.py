"""The exact variance of TensorSketch, for even and for odd m.

    Var <T X, T Y> = (c/m^2) (P1 - N1) + (1/m) (P2 - N2),    c = 2 if m is even, 1 if it is odd

    P1 = |X^T Y|^2 + |X Y^T|^2 + 2 <X o X, Y o Y>
    N1 = |diag X^T Y|^2 + |diag X Y^T|^2 + tr(X X^T o Y Y^T) + tr(X^T X o Y^T Y)
    P2 = P1 + 2 tr((X^T Y)^2) + <X, Y>^2 + |X|^2 |Y|^2
    N2 = N1 + 2 (|diag X^T Y|^2 + |diag X Y^T|^2)

Hypotheses: 2-wise buckets and 4-wise signs, all four hashes independent; here all functions, which are both.

Decided exactly: the variance is a biquadratic form, a monomial touches at most four rows and four columns, so 4 x 4
settles every size. Its coefficients are counted over all m^4 buckets of the rows, as many of the columns, and all
signs, and compared with the closed form as polynomials (`biquadratic`). At 2 x 2 the coefficients also come
from the library's TensorSketch, written out for every (h, h', s, s'). Random integer matrices guard that the
closed form is biquadratic, and larger ones that it only sees the rows and columns that are not zero. What depends on
the parity of m is one count, `coincidence`, which is decided for every m up to 4096.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..machinery.biquadratic import Form, disagreement, points
from ..machinery.moments import (
    Hashes,
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
    formula: Callable[[Array, Array, int], Any] = bounds.tensor_sketch_variance
    column_signs: Callable[[int], Int[Array, "signs d"]] = all_signs


def coefficients_swapped(X: Array, Y: Array, m: int) -> Any:
    first, second = bounds.tensor_sketch_terms(X, Y)
    return (m * first + bounds.coincidence(m) * second) / (m * m)


def two_for_every_m(X: Array, Y: Array, m: int) -> Any:
    first, second = bounds.tensor_sketch_terms(X, Y)
    return (2 * first + m * second) / (m * m)


def _without_trace(X: Array, Y: Array, m: int) -> Any:
    A = np.swapaxes(X, -1, -2) @ Y
    return bounds.tensor_sketch_variance(X, Y, m) - 2 * (A * np.swapaxes(A, -1, -2)).sum((-1, -2)) / m


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    for m in range(1, 33 if thorough else 17):
        cols = Hashes(all_buckets(4, m), claim.column_signs(4))
        variance = tensor_sketch_moments(every_hash(4, m), cols, m).variance
        yield _agrees(variance, claim, m, (4, 4), points(16, m), points(16))
        yield _agrees(variance, claim, m, (4, 4), *m * rng.integers(-3, 4, (2, 30, 16)))
        if m <= (4 if thorough else 3):
            pairs = product(every_count_sketch(2, m), repeat=2)
            by_code = moments_of_matrices([TensorSketch(rows, cols).dense() for rows, cols in pairs])
            yield _agrees(by_code.variance, claim, m, (2, 2), points(4, m), points(4))
    X, Y = rng.integers(-3, 4, (2, 20, 4, 4))
    padded = np.zeros((2, 20, 9, 7), dtype=np.int64)
    padded[..., np.array([[6], [1], [8], [2]]), np.array([0, 5, 4, 2])] = X, Y
    for m in (7, 8):
        yield (
            np.array_equal(claim.formula(padded[0], padded[1], m), claim.formula(X, Y, m)),
            f"m={m}: zeros change the claim",
        )


def _agrees(form: Form, claim: Claim, m: int, shape: tuple[int, int], X: Array, Y: Array) -> tuple[Any, str]:
    text = disagreement(form, lambda a, b: claim.formula(a, b, m), shape, X, Y)
    return not text, f"m={m}, {text}"


@statement(
    "tensor_sketch.variance",
    paper="Appendix on sketches, TensorSketch lemma, variance",
    method="exact",
    claim=Claim(),
    mutants={
        "coefficients swapped, as the lemma's display has them": Claim(coefficients_swapped),
        "coefficient 2 for odd m too": Claim(two_for_every_m),
        "drops 2 tr((X^T Y)^2)": Claim(_without_trace),
        "no sign hash for the columns": Claim(column_signs=no_signs),
    },
)
def tensor_sketch_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Var <T X, T Y> = (c/m^2)(P1 - N1) + (1/m)(P2 - N2), with c = 2 for even and 1 for odd m, for every size."""
    return Verdict.all(_cases(claim, thorough), f"identity of polynomials, every m up to {32 if thorough else 16}")


def _counted(m: int) -> int:
    """The (A, B) modulo m with A + B = 0 and A - B = 0: B is -A, so they are the A with 2 A = 0."""
    return int((2 * np.arange(m) % m == 0).sum())


def _counted_in_full(m: int) -> int:
    A, B = np.mgrid[:m, :m]
    return int((((A + B) % m == 0) & ((A - B) % m == 0)).sum())


@statement(
    "tensor_sketch.coincidence",
    paper="Appendix on sketches, proof of the TensorSketch lemma, second and fourth case",
    method="exact",
    claim=bounds.coincidence,
    mutants={"2 for every m": lambda m: 2, "1 for every m": lambda m: 1, "2 from 4 on": lambda m: 1 + (m % 4 == 0)},
)
def coincidence_is_the_count(claim: Callable[[int], int], thorough: bool) -> Verdict:
    """Two differences meet with both signs in c of m^2 cases: c = 2 for even m, 1 for odd m."""
    full = 128 if thorough else 48
    return Verdict.all(
        (
            claim(m) == (_counted_in_full(m) if m <= full else _counted(m)),
            f"m={m}: claimed {claim(m)}, is {_counted(m)}",
        )
        for m in range(1, 4097)
    )
