"""One sketch for all checkpoints: the estimates are correlated, so deviations add, not variances.

With Z_k = <S g_k, S p_k> at checkpoint k and weights eta_k, the estimate sum_k eta_k Z_k is unbiased and its
variance is sum_k eta_k^2 Var_k + sum over i != j of eta_i eta_j Cov_ij. By Cauchy-Schwarz this is at most
(sum_k |eta_k| sqrt(Var_k))^2 <= (4/m^2 + 6/m) (sum_k |eta_k| |g_k| |p_k|)^2.

Decided exactly by writing out every TensorSketch of 2 x 2 matrices: variances, covariances and the variance of the
weighted sum come from the same integer table, and Cov^2 <= Var_i Var_j holds in integers. The covariance is not
zero: with equal checkpoints it is the variance. `bounds.checkpoint_bound` takes roots, hence a relative 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..machinery.moments import every_count_sketch
from ..machinery.statement import Verdict, statement

Array = np.ndarray
WEIGHTS = [(1, 1), (3, 2), (5, 1), (1, -2)]


@cache
def _products(m: int) -> tuple[Array, Array]:
    """Z for every sketch and every (g, p) among some integer matrices, and those matrices."""
    rng = np.random.default_rng(m)
    matrices = np.concatenate([np.ones((1, 2, 2), dtype=np.int64), rng.integers(-2, 3, (7, 2, 2))])
    sketched = np.stack(
        [TensorSketch(rows, cols).apply(matrices) for rows, cols in product(every_count_sketch(2, m), repeat=2)]
    )
    return np.einsum("sgm,spm->sgp", sketched, sketched).reshape(len(sketched), -1), matrices


def _covariances(m: int) -> tuple[Array, int]:
    """n^2 Cov of every two inner products, for n sketches."""
    Z, _ = _products(m)
    n = len(Z)
    return n * (Z.T @ Z) - np.outer(Z.sum(0), Z.sum(0)), n


def _with_covariance(eta: tuple[int, int], var: tuple[Fraction, Fraction], cov: Fraction) -> Fraction:
    return eta[0] ** 2 * var[0] + eta[1] ** 2 * var[1] + 2 * eta[0] * eta[1] * cov


def _variances_only(eta: tuple[int, int], var: tuple[Fraction, Fraction], cov: Fraction) -> Fraction:
    return eta[0] ** 2 * var[0] + eta[1] ** 2 * var[1]


def _covariance_once(eta: tuple[int, int], var: tuple[Fraction, Fraction], cov: Fraction) -> Fraction:
    return _variances_only(eta, var, cov) + eta[0] * eta[1] * cov


def _sums(claim: Callable[..., Fraction], thorough: bool) -> Iterator[tuple[Any, str]]:
    for m in (2, 3):
        table, n = _covariances(m)
        Z, _ = _products(m)
        chosen = np.random.default_rng(0).permutation(len(table))[: 24 if thorough else 12]
        for (i, j), eta in product(product([0, *chosen], repeat=2), WEIGHTS):
            total = eta[0] * Z[:, i] + eta[1] * Z[:, j]
            variance = Fraction(int(n * (total @ total) - total.sum() ** 2), n * n)
            vi, vj, cov = (Fraction(int(table[k]), n * n) for k in ((i, i), (j, j), (i, j)))
            said = claim(eta, (vi, vj), cov)
            yield said == variance, f"m={m}, eta={eta}: claimed {said}, is {variance}, with covariance {cov}"
        deviations = np.outer(np.diag(table), np.diag(table))
        yield (table.astype(object) ** 2 <= deviations.astype(object)).all(), f"m={m}: Cov^2 > Var_i Var_j"


@statement(
    "checkpoints.correlated",
    paper="Proof of the stepwise lemma, step on checkpoints",
    method="exact",
    claim=_with_covariance,
    mutants={"variances add": _variances_only, "the covariance once instead of twice": _covariance_once},
)
def checkpoints_are_correlated(claim: Callable[..., Fraction], thorough: bool) -> Verdict:
    """Under one sketch, Var of a sum over checkpoints holds their covariances, which are not zero."""
    return Verdict.all(_sums(claim, thorough))


def _independent(variances: Array, eta: Array) -> Array:
    return np.tensordot(np.square(eta), variances, axes=1)


def _average(variances: Array, eta: Array) -> Array:
    return bounds.checkpoint_bound(variances, eta) / len(eta)


def _bound_cases(claim: Callable[..., Any], thorough: bool) -> Iterator[tuple[Any, str]]:
    for m in (2, 3):
        table, n = _covariances(m)
        cov = table / n**2
        var = np.diag(cov)
        _, matrices = _products(m)
        norms = np.sqrt((matrices**2).sum((1, 2)))
        products = np.outer(norms, norms).ravel()
        i, j = (side.ravel() for side in np.indices(table.shape))
        for eta in WEIGHTS:
            exactly = eta[0] ** 2 * var[i] + eta[1] ** 2 * var[j] + 2 * eta[0] * eta[1] * cov[i, j]
            bound = claim(np.stack([var[i], var[j]]), np.array(eta, dtype=float))
            lemma = bounds.tensor_sketch_factor(m) * (abs(eta[0]) * products[i] + abs(eta[1]) * products[j]) ** 2
            yield (exactly <= bound * (1 + 1e-12) + 1e-12).all(), f"m={m}, eta={eta}: a variance exceeds its bound"
            yield (bound <= lemma * (1 + 1e-12)).all(), f"m={m}, eta={eta}: the bound exceeds the lemma's"


@statement(
    "checkpoints.bound",
    paper="Stepwise lemma, bound summed over checkpoints",
    method="float64",
    claim=bounds.checkpoint_bound,
    mutants={"variances add": _independent, "divides by the number of checkpoints": _average},
)
def checkpoint_bound_holds(claim: Callable[..., Any], thorough: bool) -> Verdict:
    """Var of the weighted sum is at most (sum_k |eta_k| sqrt(Var_k))^2 <= f (sum_k |eta_k| |g_k| |p_k|)^2."""
    return Verdict.all(_bound_cases(claim, thorough))


def lemma_covers(eta: tuple[int, int]) -> bool:
    """The weights that the lemma's bound (sum_k eta_k |g_k| |p_k|)^2, without absolute values, is claimed for."""
    return min(eta) >= 0


ETAS = [(1, 1), (3, 2), (5, 1), (1, 0), (0, 2), (1, -1), (1, -2), (-3, 1)]


def _hypothesis_cases(covers: Callable[[tuple[int, int]], bool], thorough: bool) -> Iterator[tuple[Any, str]]:
    """In integers: n^2 m^2 Var against n^2 (2c + 6m) (sum)^2, where the norms are whole."""
    for m in (2, 3):
        Z, matrices = _products(m)
        n = len(Z)
        squares = (matrices**2).sum((1, 2))
        whole = [k for k, square in enumerate(squares) if int(square**0.5) ** 2 == square]
        pairs = [(a * len(matrices) + b, int((squares[a] * squares[b]) ** 0.5)) for a, b in product(whole, repeat=2)]
        for eta in ETAS:
            exceeded = ""
            for (i, x), (j, y) in product(pairs, repeat=2):
                total = eta[0] * Z[:, i] + eta[1] * Z[:, j]
                variance = m * m * int(n * (total @ total) - total.sum() ** 2)
                factor = n * n * (2 * bounds.coincidence(m) + 6 * m)
                if variance > factor * (eta[0] * x + eta[1] * y) ** 2:
                    exceeded = f"|g_1||p_1| = {x}, |g_2||p_2| = {y}: Var {variance} / {(m * n) ** 2} exceeds it"
                    break
                if variance > factor * (abs(eta[0]) * x + abs(eta[1]) * y) ** 2:
                    yield False, f"m={m}, eta={eta}: the bound with |eta| is exceeded"
            text = exceeded or "no pair of checkpoints exceeds the bound"
            yield covers(eta) == (not exceeded), f"m={m}, eta={eta}: {text}"


@statement(
    "checkpoints.eta",
    paper="Stepwise lemma, bound summed over checkpoints, a hypothesis it does not name",
    method="exact",
    claim=lemma_covers,
    mutants={
        "any weights": lambda eta: True,
        "weights whose sum is not negative": lambda eta: sum(eta) >= 0,
        "positive weights only": lambda eta: min(eta) > 0,
    },
)
def lemma_needs_weights_of_one_sign(covers: Callable[[tuple[int, int]], bool], thorough: bool) -> Verdict:
    """The lemma's bound as printed holds for eta >= 0 and fails for weights of both signs; with |eta| it holds."""
    return Verdict.all(_hypothesis_cases(covers, thorough))
