"""Matrices that read one activation (q, k, v) may share the columns' hash: what that does to mean and variance.

Sketches with independent row hashes and one column hash (h, s) stay unbiased. Their inner products are no longer
uncorrelated. Averaged over the rows' signs, <T_q X_q, T_q Y_q> is sum over j, l of s(j) s(l) [h(j) = h(l)] A_jl with
A = X_q^T Y_q, so with B = X_k^T Y_k

    Cov = (1/m) sum over j != l of A_jl (B_jl + B_lj)

Variances no longer add, and the bound for independent sketches, f sum_i |X_i|^2 |Y_i|^2, is exceeded by matrices of
ones. What survives, by Cauchy-Schwarz, is f (sum_i |X_i| |Y_i|)^2 <= f |g|^2 |p|^2: the bound on the whole.
In fact |Cov| <= (2/m) |X_q| |Y_q| |X_k| |Y_k|, since |A| <= |X_q| |Y_q|.

Decided exactly: the covariance is linear in each of X_q, Y_q, X_k, Y_k and a monomial has at most four columns and two
rows of each matrix, so the 8^4 basis arrays at 2 x 4 settle every size; every column hash is written out with
every row hash by the library's TensorSketch. The bounds are compared in integers over
all 0/1 matrices, and with `bounds.concatenation_bound`, which takes roots, to a relative 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from sdi import bounds
from sdi.sketch_map import SketchMap
from sdi.sketches import TensorSketch

from .moments import every_count_sketch
from .statement import Verdict, statement

Array = np.ndarray
Covariance = Callable[[Array, Array], Any]


def covariance(A: Array, B: Array) -> Any:
    """m Cov, for A = X_q^T Y_q and B = X_k^T Y_k."""
    off = 1 - np.eye(A.shape[-1], dtype=np.int64)
    return (off * A * (B + B.swapaxes(-1, -2))).sum((-1, -2))


def _uncorrelated(A: Array, B: Array) -> Any:
    return 0 * covariance(A, B)


def _without_transpose(A: Array, B: Array) -> Any:
    return ((1 - np.eye(A.shape[-1], dtype=np.int64)) * A * B).sum((-1, -2))


def _with_diagonal(A: Array, B: Array) -> Any:
    return (A * (B + B.swapaxes(-1, -2))).sum((-1, -2))


def _covariance_cases(claim: Covariance, thorough: bool) -> Iterator[tuple[Any, str]]:
    for (d, d2), m in [((2, 2), 1), ((2, 2), 2), ((2, 2), 3), ((2, 4), 2), *([((2, 3), 3)] if thorough else [])]:
        n = d * d2
        means = []  # of the Gram matrix over all row hashes, for each column hash: q and k draw rows independently
        for cols in every_count_sketch(d2, m):
            matrices = np.stack([TensorSketch(rows, cols).dense() for rows in every_count_sketch(d, m)])
            means.append(np.einsum("rmu,rmv->uv", matrices, matrices).ravel())
        row_draws, col_draws = len(matrices), len(means)
        table = np.stack(means)
        total = table.sum(0)
        unbiased = np.array_equal(total.reshape(n, n), row_draws * col_draws * np.eye(n, dtype=np.int64))
        yield unbiased, f"{d} x {d2}, m={m}: biased"
        counted = col_draws * (table.T @ table) - np.outer(total, total)  # (row_draws col_draws)^2 Cov
        basis = np.eye(n, dtype=np.int64).reshape(n, d, d2)
        A = np.einsum("xij,yil->xyjl", basis, basis).reshape(n * n, d2, d2)  # X^T Y for all X, Y
        said = claim(A[:, None], A[None])
        same = np.array_equal(said * (row_draws * col_draws) ** 2, counted * m)
        yield same, f"{d} x {d2}, m={m}: the covariance differs on basis arrays"


@statement(
    "shared_input_hash.covariance",
    paper="ours: the sketch of matrices that read one activation",
    method="exact",
    claim=covariance,
    mutants={
        "uncorrelated": _uncorrelated,
        "B without its transpose": _without_transpose,
        "with the diagonal": _with_diagonal,
    },
)
def shared_hash_covariance_is_exact(claim: Covariance, thorough: bool) -> Verdict:
    """With one columns' hash Cov = (1/m) sum_{j != l} A_jl (B_jl + B_lj), A = Xq^T Yq, B = Xk^T Yk; no bias."""
    return Verdict.all(_covariance_cases(claim, thorough))


def _square_sum(f: int, a: Array, b: Array, sum_of: Array) -> Array:
    """Whether sum_of <= f (sqrt(a) + sqrt(b))^2, in integers."""
    excess = sum_of - f * (a + b)
    return (excess <= 0) | (excess * excess <= 4 * f * f * a * b)


def _fitting(claim: Callable[..., Any], m: int) -> Callable[[Array, Array], Array]:
    """The claimed bound for two 64 x 64 matrices with one columns' hash, as a function of |X_i| |Y_i|."""
    shapes = {"q": (64, 64), "k": (64, 64)}
    sketch = SketchMap.draw(shapes, m=m, shared=dict.fromkeys(shapes, "x"))
    return lambda q, k: claim(sketch, {"q": q, "k": k}, {"q": np.ones(()), "k": np.ones(())})


def _as_if_independent(sketch: SketchMap, x: dict[str, Any], y: dict[str, Any]) -> Any:
    return sum(bounds.worst_case(s) * np.square(x[n] * y[n]) for n, s in sketch.sketches.items())


def _half(sketch: SketchMap, x: dict[str, Any], y: dict[str, Any]) -> Any:
    return bounds.concatenation_bound(sketch, x, y) / 2


def _bound_cases(claim: Callable[..., Any], thorough: bool) -> Iterator[tuple[Any, str]]:
    X = np.array(list(product((0, 1), repeat=4))).reshape(-1, 2, 2)
    norms = (X * X).sum((1, 2))
    pair_norms = np.outer(norms, norms).ravel()  # |X|^2 |Y|^2
    A = np.einsum("xij,yil->xyjl", X, X).reshape(-1, 2, 2)
    cov = covariance(A[:, None], A[None])
    for m in (1, 2, 3, 8):
        c = bounds.coincidence(m)
        first, second = bounds.tensor_sketch_terms(X[:, None], X[None])
        var = (c * first + m * second).ravel()  # m^2 Var
        both = var[:, None] + var[None] + 2 * m * cov
        a, b = pair_norms[:, None], pair_norms[None]
        yield (both >= 0).all(), f"m={m}: a variance is negative"
        yield _square_sum(2 * c + 6 * m, a, b, both).all(), f"m={m}: f (sum |X| |Y|)^2 is exceeded"
        yield (cov.astype(object) ** 2 <= 4 * a * b).all(), f"m={m}: |Cov| > (2/m) |Xq| |Yq| |Xk| |Yk|"
        bound = _fitting(claim, m)(np.sqrt(a), np.sqrt(b))
        yield (both <= bound * m * m * (1 + 1e-12)).all(), f"m={m}: a variance exceeds the bound"
        d = 64  # the witness: matrices of ones
        ones = np.ones((d, d), dtype=np.int64)
        first, second = (int(t) for t in bounds.tensor_sketch_terms(ones, ones))
        both_ones = 2 * (c * first + m * second) + 2 * m * int(covariance(d * ones, d * ones))
        independent = 2 * (2 * c + 6 * m) * d**4
        yield both_ones > independent, f"m={m}: ones do not exceed the bound for independent sketches"
        norm = np.array(float(d * d))
        most = float(_fitting(claim, m)(norm, norm)) * m * m
        yield both_ones <= most, f"m={m}, q=k=ones({d}, {d}): m^2 Var is {both_ones}, the bound {most:.0f}"
        whole = bounds.tensor_sketch_factor(m) * (2 * d * d) ** 2 * m * m  # f |g|^2 |p|^2 with g = p = (q, k)
        yield most <= whole * (1 + 1e-12), f"m={m}: the bound exceeds f |g|^2 |p|^2"


@statement(
    "shared_input_hash.bound",
    paper="ours: the stepwise lemma's bound for matrices that read one activation",
    method="float64",
    claim=bounds.concatenation_bound,
    mutants={"as if independent": _as_if_independent, "half of it": _half},
)
def shared_hash_bound_survives(claim: Callable[..., Any], thorough: bool) -> Verdict:
    """With shared columns' hashes f sum |X_i|^2 |Y_i|^2 fails, f (sum |X_i| |Y_i|)^2 <= f |g|^2 |p|^2 holds."""
    return Verdict.all(_bound_cases(claim, thorough))
