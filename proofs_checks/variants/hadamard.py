"""The tensorised subsampled Hadamard projection is unbiased; its variance, exactly; at most 8/m (N - m) / (N - 1).

The sketch of X holds w_r . X / sqrt(m) for m different rows r, every set as likely as the others, of the N = p p' rows
w_r of (H s) kron (H' t): H and H' are Hadamard matrices of signs, of the powers of two p and p' from d and d' on, and s
and t are independent signs for the rows and columns of X.

Given the signs, the average of q_r = (w_r . X)(w_r . Y) over all N rows is <X, Y>, since H kron H' is orthogonal: the
mean is right whatever the signs, and all that is random is which m of the N rows are seen. So the variance is
(N - m) / (m (N - 1)) times that of one q_r at random; and a row of H times random signs is a vector of random signs, so
that is the variance of the two-sided projection by one row of signs on each side (`kronecker`, k1 = k2 = 1). By its
certificate it is at most 8 |X|^2 |Y|^2, which ones approach; for a vector, 2. With m = N nothing is lost.

Decided exactly, for all real 4 x 4 matrices and every m up to N = 16, as polynomials, by counting over all signs; and
from the library's class, written out for every draw of small shapes, padded ones and vectors among them. The argument
above covers the other sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from sdi.sketch.protocol import matrix_shape
from sdi.sketch.shipped.hadamard import HadamardSketch, padded

from ..machinery.agreement import Case, Factor, Shape, agreement, factor_of, smallest_factor
from ..machinery.moments import Moments, all_signs
from ..machinery.projections import Gram, moments_of_draws
from ..machinery.statement import Verdict, statement
from .kronecker import kronecker_variance

Array = np.ndarray
H2 = np.array([[1, 1], [1, -1]])
H4 = np.kron(H2, H2)
LISTED: tuple[tuple[Shape, int], ...] = (
    ((2, 2), 1), ((2, 2), 2), ((2, 2), 4), ((3,), 2), ((4,), 3), ((2, 3), 1), ((1, 2), 1)
)  # fmt: skip


def hadamard_variance(X: Array, Y: Array, m: int, N: int) -> Any:
    """Exact variance of <S X, S Y>, with m of N rows seen."""
    return (N - m) * kronecker_variance(X, Y, 1, 1) / (m * max(N - 1, 1))


def every(shape: Shape, m: int) -> Iterable[tuple[Fraction, Any]]:
    """Every draw of the library's class."""
    return HadamardSketch.enumerate_all(shape, m)


class Claim(NamedTuple):
    formula: Callable[..., Any] = hadamard_variance
    draws: Callable[[Shape, int], Iterable[Any]] = every
    column_signs: Callable[[int], Int[Array, "signs d"]] = all_signs


@cache
def _sums(columns: bytes) -> tuple[int, Array, Array, Array]:
    """Over all signs: how many, sum of q_r, of q_r q_r, and of (sum of q_r)(sum of q_r), as forms in X and Y."""
    right = np.frombuffer(columns, dtype=np.int64).reshape(-1, 4)
    left, right = (H4[None] * signs[:, None] for signs in (all_signs(4), right))
    W = np.einsum("sai,tbj->stabij", left, right).reshape(-1, 16, 16)
    q = np.einsum("zru,zrv->zruv", W, W).reshape(len(W), 16, 256).astype(np.float64)  # whole and small: exact, and fast
    each, total = q.reshape(-1, 256), q.sum(1)
    mean, one, two = (np.rint(x).astype(np.int64) for x in (total.sum(0), each.T @ each, total.T @ total))
    return len(W), mean, one, two


def counted(m: int, column_signs: Callable[[int], Int[Array, "signs d"]] = all_signs) -> Moments:
    """Of 4 x 4 matrices: E Z and E Z^2 with Z the mean of q_r over m of 16 rows."""
    count, mean, one, two = _sums(column_signs(4).astype(np.int64).tobytes())
    # a row is seen with probability m / 16, two different ones with m (m - 1) / (16 * 15)
    second = 15 * m * one + m * (m - 1) * (two - one)
    return Gram(mean.reshape(16, 16), 16 * count, second.reshape((16,) * 4), 16 * 15 * m * m * count).moments


def _with_replacement(X: Array, Y: Array, m: int, N: int) -> Any:
    return kronecker_variance(X, Y, 1, 1) / m


def _of_normal_sides(X: Array, Y: Array, m: int, N: int) -> Any:
    return (N - m) * kronecker_variance(X, Y, 1, 1, signs=False) / (m * max(N - 1, 1))


def _first_rows(shape: Shape, m: int) -> Iterator[tuple[Fraction, HadamardSketch]]:
    """The same m rows always."""
    for probability, sketch in every(shape, m):
        p2 = padded(matrix_shape(shape)[1])
        at = np.arange(sketch.size)
        yield probability, HadamardSketch(sketch.out_signs, sketch.in_signs, at // p2, at % p2, sketch.of)


def _cases(claim: Claim, thorough: bool) -> Iterator[Case]:
    for m in range(1, 17) if thorough else (1, 2, 5, 15, 16):
        moments = counted(m, claim.column_signs)
        yield from agreement(moments, partial(claim.formula, m=m, N=16), (4, 4), 15 * m, f"m={m}")
    for shape, m in LISTED:
        sides = matrix_shape(shape)
        N = padded(sides[0]) * padded(sides[1])
        written = moments_of_draws(claim.draws(shape, m), Fraction(m))
        where = f"the library's, shape {shape}, m={m}"
        yield from agreement(written, partial(claim.formula, m=m, N=N), sides, m * (N - 1), where)


@statement(
    "hadamard.variance",
    paper="beside the paper: subsampled Hadamard transforms",
    method="exact",
    claim=Claim(),
    mutants={
        "as if rows were drawn with replacement": Claim(_with_replacement),
        "as for normal entries": Claim(_of_normal_sides),
        "no signs for the columns": Claim(column_signs=lambda d: np.ones((1, d), dtype=np.int64)),
        "always the first m rows": Claim(draws=_first_rows),
    },
)
def hadamard_variance_is_exact(claim: Claim, thorough: bool) -> Verdict:
    """Var <S X, S Y> = (N - m) / (m (N - 1)) times that of (s^T X t)(s^T Y t), s and t signs; unbiased."""
    return Verdict.all(_cases(claim, thorough), "identity of polynomials")


BOUNDED: tuple[tuple[Shape, int], ...] = (
    ((32, 32), 64), ((20, 30), 1), ((20, 30), 7), ((64, 64), 4096), ((512, 512), 16),
    ((100,), 64), ((1, 50), 8), ((1,), 1),
)  # fmt: skip


def _bound_cases(claim: Factor, thorough: bool) -> Iterator[Case]:
    for shape, m in BOUNDED:
        d, d2 = matrix_shape(shape)
        N = padded(d) * padded(d2)
        part, most = Fraction(N - m, max(N - 1, 1) * m), 8 if min(d, d2) > 1 else 2
        ones = ((3 - Fraction(2, d)) * (3 - Fraction(2, d2)) - 1) * part  # E (sum of d signs)^4 = d^2 (3 - 2/d)
        yield from smallest_factor(claim(shape, m), most * part, [("ones", ones)], f"shape {shape}, m={m}")


@statement(
    "hadamard.bound",
    paper="beside the paper: subsampled Hadamard transforms",
    method="exact",
    claim=factor_of(HadamardSketch),
    mutants={
        "6/m, near TensorSketch's": lambda shape, m: 6 / m,
        "without (N - m) / (N - 1)": lambda shape, m: (8 if min(matrix_shape(shape)) > 1 else 2) / m,
        "2/m": lambda shape, m: 2 / m,
    },
)
def hadamard_bound_holds(claim: Factor, thorough: bool) -> Verdict:
    """Var <S X, S Y> <= (8/m) (N - m) / (N - 1) |X|^2 |Y|^2, 2/m for vectors; no smaller constant at every size."""
    return Verdict.all(_bound_cases(claim, thorough), "by the two-sided projection's sum of squares")
