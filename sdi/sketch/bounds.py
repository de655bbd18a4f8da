"""How far a sketched inner product may stray: the exact variance, worst cases, and the m a wanted error needs.

`X . Y` estimated by sketches has mean `X . Y` and variance

    CountSketch   (1/m) (|x|^2 |y|^2 + (x.y)^2 - 2 sum x_i^2 y_i^2)           <= (2/m) |x|^2 |y|^2
    TensorSketch  (c/m^2) (P1 - N1) + (1/m) (P2 - N2),  c = 2 if m is even, 1 if it is odd
                                                                              <= (2c/m^2 + 6/m) |X|^2 |Y|^2

for buckets that are 2-wise and signs that are 4-wise independent. `proofs_checks/` decides each of these.
The functions keep the dtype they are given, so Fractions give exact answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, sqrt
from typing import Any

import numpy as np
from jaxtyping import Float, Shaped

from sdi.errors import SketchMismatch
from sdi.sketch.protocol import Sketch, check_m
from sdi.sketch.sketch_map import SketchMap
from sdi.sketch.variance_factor import coincidence as coincidence
from sdi.sketch.variance_factor import tensor_sketch_factor as tensor_sketch_factor

Array = np.ndarray


def count_sketch_variance(x: Shaped[Array, "... d"], y: Shaped[Array, "... d"], m: int) -> Any:
    """Exact variance of <CS x, CS y> for a CountSketch of width m.

    x, y: vectors (..., d). m: buckets. Returns (...), in the dtype given.

    >>> float(count_sketch_variance(np.ones(2), np.ones(2), m=4))
    1.0
    """
    check_m(m)
    x, y = _pair(x, y, 1)
    xx, yy, xy = (x * x).sum(-1), (y * y).sum(-1), (x * y).sum(-1)
    return (xx * yy + xy * xy - 2 * (x * x * y * y).sum(-1)) / m


def tensor_sketch_terms(X: Shaped[Array, "... d d2"], Y: Shaped[Array, "... d d2"]) -> tuple[Any, Any]:
    """(P1 - N1, P2 - N2): what stands over m^2 / c and over m in the variance of <TS X, TS Y>."""
    X, Y = _pair(X, Y, 2)
    Xt, Yt = X.swapaxes(-1, -2), Y.swapaxes(-1, -2)
    XtY, XYt = Xt @ Y, X @ Yt
    X2, Y2 = X * X, Y * Y
    diagonals = _sum(_diagonal(XtY) ** 2, 1) + _sum(_diagonal(XYt) ** 2, 1)
    rows = (X2.sum(-1) * Y2.sum(-1)).sum(-1)
    cols = (X2.sum(-2) * Y2.sum(-2)).sum(-1)
    first = _sum(XtY**2, 2) + _sum(XYt**2, 2) + 2 * _sum(X2 * Y2, 2) - diagonals - rows - cols
    second = 2 * _sum(XtY * XtY.swapaxes(-1, -2), 2) + _sum(X * Y, 2) ** 2 + _sum(X2, 2) * _sum(Y2, 2)
    return first, first + second - 2 * diagonals


def tensor_sketch_variance(X: Shaped[Array, "... d d2"], Y: Shaped[Array, "... d d2"], m: int) -> Any:
    """Exact variance of <TS X, TS Y> for a TensorSketch of width m.

    X, Y: matrices (..., d, d2). m: buckets. Returns (...), in the dtype given.

    >>> float(tensor_sketch_variance(np.ones((2, 2)), np.ones((2, 2)), m=2))
    24.0
    """
    check_m(m)
    first, second = tensor_sketch_terms(X, Y)
    return (coincidence(m) * first + m * second) / (m * m)


def worst_case(sketch: Sketch) -> float:
    """The f that a sketch claims: Var <S X, S Y> <= f |X|^2 |Y|^2, whatever X and Y.

    sketch: of any class. Returns its `variance_factor()`.

    >>> from sdi.sketch.shipped.count_and_tensor import CountSketch
    >>> worst_case(CountSketch.draw((40,), 8))
    0.25
    """
    return float(sketch.variance_factor())


def concatenation_bound(
    sketch: SketchMap, x_norms: Mapping[str, Any], y_norms: Mapping[str, Any]
) -> Float[Array, "..."]:
    """Bound on the variance of the whole inner product, from the norms of each parameter's part.

    The sketches are independent, so their variances add.
    """
    odd = (set(x_norms) ^ set(sketch.sketches)) | (set(y_norms) ^ set(sketch.sketches))
    if odd:
        raise SketchMismatch(
            f"norms must be given for the sketch's parameters {list(sketch.sketches)}; on one side only: {sorted(odd)}"
        )
    parts = (worst_case(s) * np.square(x_norms[name]) * np.square(y_norms[name]) for name, s in sketch.sketches.items())
    return np.asarray(sum(parts))


def checkpoint_bound(variances: Shaped[Array, "K ..."], eta: Float[Array, "K"]) -> Float[Array, "..."]:
    """Bound on the variance of sum_k eta_k <S g_k, S p_k> from the K variances, one sketch for all checkpoints.

    The terms are correlated, so their standard deviations add.

    >>> float(checkpoint_bound(np.array([4.0, 9.0]), np.array([1.0, 1.0])))
    25.0
    """
    variances, eta = np.asarray(variances, dtype=np.float64), np.asarray(eta, dtype=np.float64)
    if eta.ndim != 1 or len(variances) != len(eta):
        raise ValueError(
            f"eta must hold one weight for each of the {len(variances)} checkpoints, got shape {eta.shape}"
        )
    if variances.min(initial=0) < 0:
        raise ValueError(f"variances must not be negative, got {variances.min()}")
    return np.asarray(np.tensordot(np.abs(eta), np.sqrt(variances), axes=1) ** 2)


def smallest_m(relative_error: float, power_of_two: bool = False) -> int:
    """The smallest m at which a TensorSketch's standard deviation is at most relative_error * |g| |p| for any g and p.

    relative_error: the wanted error, such as 0.05. power_of_two: only powers of two are considered.
    Returns m.

    >>> smallest_m(0.05), smallest_m(0.05, power_of_two=True)
    (2401, 4096)
    """
    if not 0 < relative_error < float("inf"):
        raise ValueError(f"relative_error must be above 0 and finite, got {relative_error}")
    target = relative_error**2
    if power_of_two:
        m = 1
        while tensor_sketch_factor(m) > target:
            m *= 2
        return m
    # For odd m, 2/m^2 + 6/m <= t holds from the root of t m^2 - 6 m - 2 = 0 on; for even m from a little later on.
    m = max(1, floor((3 + sqrt(9 + 2 * target)) / target))
    while tensor_sketch_factor(m) > target:
        m += 1
    return m


def _pair(x: Array, y: Array, axes: int) -> tuple[Array, Array]:
    x, y = np.asarray(x), np.asarray(y)
    if x.ndim < axes or x.shape[x.ndim - axes :] != y.shape[y.ndim - axes :]:
        raise SketchMismatch(f"the two must have one shape and at least {axes} axes, got {x.shape} and {y.shape}")
    return x, y


def _sum(x: Array, axes: int) -> Any:
    return x.sum(axis=tuple(range(-axes, 0)))


def _diagonal(x: Array) -> Array:
    return x.diagonal(axis1=-2, axis2=-1)
