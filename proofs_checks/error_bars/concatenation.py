"""Independent sketches side by side: unbiased, and their variances add.

For g and p made of several tensors, each with an independent sketch, Z = sum_i <S_i g_i, S_i p_i> has mean g . p,
variance sum_i Var_i, and so at most sum_i f_i |g_i|^2 |p_i|^2 <= max_i f_i |g|^2 |p|^2.

Decided exactly: every joint draw of a CountSketch (d = 2) and a TensorSketch (2 x 2) through the library's
SketchMap, whose covariance is a form with one coefficient for each (x_i y_k, X_u Y_v): all must vanish, which
covers all real arrays. The bound: `bounds.concatenation_bound` against the exact sum of variances and the factor
times the norms, over all arrays with entries in {-1, 0, 1}; it takes square roots, hence a relative 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import product
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.protocol import Sketch
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.sketch_map import SketchMap

from ..machinery.moments import every_count_sketch
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Joint = Callable[[int], Iterable[tuple[Sketch, Sketch]]]
SHAPES = {"b": (2,), "W": (2, 2)}


def independent(m: int) -> Iterator[tuple[CountSketch, TensorSketch]]:
    """Every sketch of b with every sketch of W."""
    for vector, rows, cols in product(every_count_sketch(2, m), repeat=3):
        yield vector, TensorSketch(rows, cols)


def _one_hash(m: int) -> Iterator[tuple[CountSketch, TensorSketch]]:
    for rows, cols in product(every_count_sketch(2, m), repeat=2):
        yield rows, TensorSketch(rows, cols)


def _one_sign(m: int) -> Iterator[tuple[CountSketch, TensorSketch]]:
    for vector, rows, cols in product(every_count_sketch(2, m), repeat=3):
        yield CountSketch(h=vector.h, s=cols.s, m=m), TensorSketch(rows, cols)


@statement(
    "concatenation.variances_add",
    paper="Proof of the stepwise lemma, step on concatenation",
    method="exact",
    claim=independent,
    mutants={"b and W share the rows' hash": _one_hash, "b and W share signs": _one_sign},
)
def variances_add(joint: Joint, thorough: bool) -> Verdict:
    """Independent sketches side by side are unbiased and uncorrelated: the variances add, for all real arrays."""
    basis = np.eye(6, dtype=np.int64)
    arrays = {"b": basis[:, :2], "W": basis[:, 2:].reshape(6, 2, 2)}
    cases = []
    for m in (1, 2, 3) if thorough else (1, 2):
        grams = []
        for b, W in joint(m):
            matrix = SketchMap({"b": b, "W": W}, SHAPES).apply(arrays)  # (6 entries, 2 m)
            grams.append(matrix @ matrix.T)
        gram = np.stack(grams)
        n = len(gram)
        cases.append((np.array_equal(gram.sum(0), n * basis), f"m={m}: the mean is not the identity"))
        b_part, W_part = gram[:, :2, :2].reshape(n, -1), gram[:, 2:, 2:].reshape(n, -1)
        covariance = n * (b_part.T @ W_part) - np.outer(b_part.sum(0), W_part.sum(0))
        cases.append(
            (not covariance.any(), f"m={m}: the covariance has coefficients {np.unique(covariance)} / {n * n}")
        )
    return Verdict.all(cases)


def _largest_only(sketch: SketchMap, x: dict[str, Any], y: dict[str, Any]) -> Any:
    parts = [bounds.worst_case(s) * x[n] ** 2 * y[n] ** 2 for n, s in sketch.sketches.items()]
    return reduce(np.maximum, parts)


def _count_factor(sketch: SketchMap, x: dict[str, Any], y: dict[str, Any]) -> Any:
    m = next(iter(sketch.sketches.values())).size
    return sum(2 / m * x[n] ** 2 * y[n] ** 2 for n in sketch.sketches)


def _deviations_add(sketch: SketchMap, x: dict[str, Any], y: dict[str, Any]) -> Any:
    return sum(bounds.worst_case(s) ** 0.5 * x[n] * y[n] for n, s in sketch.sketches.items()) ** 2


@statement(
    "concatenation.bound",
    paper="Proof of the stepwise lemma, step on concatenation",
    method="float64",
    claim=bounds.concatenation_bound,
    mutants={
        "the largest part only": _largest_only,
        "CountSketch's factor for matrices": _count_factor,
        "deviations add, as if dependent": _deviations_add,
    },
)
def concatenation_bound_holds(claim: Callable[..., Any], thorough: bool) -> Verdict:
    """The sum of variances is at most sum_i f_i |g_i|^2 |p_i|^2, and that at most (4/m^2 + 6/m) |g|^2 |p|^2."""
    entries = np.array(list(product((-1, 0, 1), repeat=4)))
    b = np.array([[0, 0], [1, 1], [1, -1], [0, 1]])
    W = np.concatenate([entries, 40 * entries[:8]]).reshape(-1, 2, 2)
    cases = []
    for m in (1, 2, 3, 8) if thorough else (2, 3):
        sketch = SketchMap.draw({"b": (64,), "W": (64, 64)}, m=m)
        # axes: b of g, b of p, W of g, W of p
        var = bounds.count_sketch_variance(b[:, None], b[None], m)[:, :, None, None]
        var = var + bounds.tensor_sketch_variance(W[:, None], W[None], m)
        ones = np.ones((64, 64))
        norm_b, norm_W = np.sqrt((b * b).sum(-1)), np.sqrt((W * W).sum((-1, -2)))
        x = {"b": norm_b[:, None, None, None], "W": norm_W[None, None, :, None]}
        y = {"b": norm_b[None, :, None, None], "W": norm_W[None, None, None, :]}
        bound = claim(sketch, x, y)
        g2, p2 = (v["b"] ** 2 + v["W"] ** 2 for v in (x, y))
        allowed = bounds.tensor_sketch_factor(m) * g2 * p2
        parts = 2 / m * x["b"] ** 2 * y["b"] ** 2 + bounds.tensor_sketch_factor(m) * x["W"] ** 2 * y["W"] ** 2
        cases.append(((var <= bound * (1 + 1e-12)).all(), f"m={m}: a variance exceeds the bound"))
        cases.append(((bound <= allowed * (1 + 1e-12)).all(), f"m={m}: the bound exceeds f |g|^2 |p|^2"))
        cases.append((np.allclose(bound, parts, rtol=1e-12, atol=0), f"m={m}: the bound is not the sum of its parts"))
        big = bounds.tensor_sketch_variance(ones, ones, m) + bounds.count_sketch_variance(ones[0], ones[0], m)
        norms = {"b": np.array(8.0), "W": np.array(64.0)}
        cases.append((big <= claim(sketch, norms, norms), f"m={m}: ones(64, 64) and ones(64) exceed the bound"))
    return Verdict.all(cases)
