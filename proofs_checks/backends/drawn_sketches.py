"""The sketches that SketchMap.draw really draws have the mean and the variance of the theory, at working sizes.

Statistical, since 48 x 40 matrices cannot be enumerated: for each family of randomness, N draws with the seeds
0, ..., N - 1 (N a constant of each family, not a stopping rule), of two matrices of one shape and a vector at m = 32.
One matrix also meets its own transpose, and e_01 meets e_10: if rows and columns shared one hash, these would fall into
one bucket with one sign, and their product be 1 instead of 0.

    mean        z = (average Z - X . Y) sqrt(N / Var), Var the exact variance
    variance    z = (average (Z - X . Y)^2 - Var) sqrt(N / V4), V4 the measured variance of (Z - X . Y)^2
    covariance  z = average of (Z_1 - mu_1)(Z_2 - mu_2) sqrt(N / (Var_1 Var_2)): zero for independent sketches

Each z is compared two-sided with the normal quantile for alpha = 1e-6 divided by the number of tests. The quantiles
are those of the normal limit; for the variance the fourth moment is measured, so there alpha is nominal. The seeds
are fixed, so a run fails always or never. Power is what the mutants show: each must be rejected by the same test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import NormalDist
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.protocol import Sketch
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch
from sdi.sketch.sketch_map import SketchMap

from ..machinery.statement import Verdict, statement

Array = np.ndarray
Draw = Callable[[dict[str, tuple[int, ...]], int, int, str], SketchMap]
SHAPES: dict[str, tuple[int, ...]] = {"q": (48, 40), "k": (48, 40), "b": (90,)}
M, ALPHA, TESTS = 32, 1e-6, 22  # two families times (three means, three variances, three covariances, two transposes)


def draw(shapes: dict[str, tuple[int, ...]], m: int, seed: int, family: str) -> SketchMap:
    return SketchMap.draw(shapes, m=m, seed=seed, family=family)


def _rebuilt(change: Callable[[str, CountSketch], CountSketch], sketch: SketchMap) -> SketchMap:
    def rebuild(name: str, s: Any) -> Sketch:
        if isinstance(s, TensorSketch):
            return TensorSketch(change(name, s.rows), change(name, s.cols))
        return change(name, s)

    return SketchMap({name: rebuild(name, s) for name, s in sketch.sketches.items()}, sketch.shapes)


def _ignores_names(shapes: dict[str, tuple[int, ...]], m: int, seed: int, family: str) -> SketchMap:
    sketch = draw(shapes, m, seed, family)
    return SketchMap({**sketch.sketches, "k": sketch.sketches["q"]}, sketch.shapes)


def _without_signs(shapes: dict[str, tuple[int, ...]], m: int, seed: int, family: str) -> SketchMap:
    return _rebuilt(lambda _, s: CountSketch(s.h, np.ones_like(s.s), m), draw(shapes, m, seed, family))


def _half_the_buckets(shapes: dict[str, tuple[int, ...]], m: int, seed: int, family: str) -> SketchMap:
    return _rebuilt(lambda _, s: CountSketch(s.h // 2, s.s, m), draw(shapes, m, seed, family))


def _tied_sides(shapes: dict[str, tuple[int, ...]], m: int, seed: int, family: str) -> SketchMap:
    sketch = draw(shapes, m, seed, family)
    tied: dict[str, Sketch] = {}
    for name, s in sketch.sketches.items():
        if isinstance(s, TensorSketch):
            d, d2 = s.shape
            longer = s.rows if d >= d2 else s.cols
            tied[name] = TensorSketch(*(CountSketch(longer.h[:k], longer.s[:k], m) for k in (d, d2)))
    return SketchMap({**sketch.sketches, **tied}, sketch.shapes)


def _ignores_seeds(shapes: dict[str, tuple[int, ...]], m: int, seed: int, family: str) -> SketchMap:
    return draw(shapes, m, seed % 7, family)


def _arrays() -> tuple[dict[str, Array], dict[str, Array]]:
    """Gradients with structure: an outer product, which is the hard case, and noise; g and p correlated."""
    rng = np.random.default_rng(1)
    u, v, w = (0.5 + rng.standard_normal(d) for d in (48, 40, 90))
    outer = np.outer(u, v)
    q, k, y = (outer + 0.5 * rng.standard_normal((48, 40)) for _ in range(3))
    return {"q": q, "k": q, "b": w}, {"q": y, "k": y + 0.1 * k, "b": w + rng.standard_normal(90)}


def _transposes() -> dict[str, tuple[Array, Array]]:
    one, many = np.zeros((2, 48, 40))
    one[0, 1] = 1.0
    many[:6, :6] = np.random.default_rng(2).standard_normal((6, 6))
    corner = (slice(40), slice(40))
    pairs = {"e_01 and e_10": (one, np.zeros_like(one)), "X and its transpose": (many, np.zeros_like(many))}
    for X, Y in pairs.values():
        Y[corner] = X[corner].T
    return pairs


def _tests(draw: Draw, thorough: bool) -> Iterator[tuple[Any, str]]:
    limit = NormalDist().inv_cdf(1 - ALPHA / TESTS / 2)
    g, p = _arrays()
    stacked = {name: np.stack([g[name], p[name]]) for name in SHAPES}
    mu = {name: float((g[name] * p[name]).sum()) for name in SHAPES}
    var = {name: float(bounds.tensor_sketch_variance(g[name], p[name], M)) for name in ("q", "k")}
    var["b"] = float(bounds.count_sketch_variance(g["b"], p["b"], M))
    for family, few in (("table", 1000), ("polynomial", 500)):  # polynomials take four times as long to draw
        N = few * (10 if thorough else 1)
        drawn = [draw(SHAPES, M, seed, family) for seed in range(N)]
        sketched = np.stack([sketch.apply(stacked) for sketch in drawn])  # (N, 2, 3 m)
        Z = (sketched[:, 0] * sketched[:, 1]).reshape(N, 3, M).sum(-1)
        off = {name: Z[:, i] - mu[name] for i, name in enumerate(SHAPES)}
        for name in SHAPES:
            z = off[name].mean() * (N / var[name]) ** 0.5
            yield abs(z) <= limit, f"{family}, {name}: the mean is {z:.1f} standard errors off"
            square = off[name] ** 2
            z = (square.mean() - var[name]) * (N / max(square.var(), 1e-300)) ** 0.5
            yield abs(z) <= limit, f"{family}, {name}: the variance is {z:.1f} standard errors off"
        for one, other in (("q", "k"), ("q", "b"), ("k", "b")):
            z = (off[one] * off[other]).mean() * (N / (var[one] * var[other])) ** 0.5
            yield abs(z) <= limit, f"{family}, {one} and {other}: the covariance is {z:.1f} standard errors from 0"
        for what, (X, Y) in _transposes().items():
            both = np.stack([sketch.sketches["q"].apply(np.stack([X, Y])) for sketch in drawn])  # (N, 2, m)
            of = (both[:, 0] * both[:, 1]).sum(-1) - (X * Y).sum()
            z = of.mean() * (N / float(bounds.tensor_sketch_variance(X, Y, M))) ** 0.5
            yield abs(z) <= limit, f"{family}, {what}: the mean is {z:.1f} standard errors off"


@statement(
    "drawn_sketches",
    paper="Main text, the sketch map as implemented",
    method="statistical",
    claim=draw,
    mutants={
        "one sketch for parameters of one shape": _ignores_names,
        "no signs": _without_signs,
        "buckets that are never used": _half_the_buckets,
        "seven seeds only": _ignores_seeds,
        "rows and columns share one hash": _tied_sides,
    },
)
def drawn_sketches_behave(draw: Draw, thorough: bool) -> Verdict:
    """Sketches as drawn, in both families, have the exact mean and variance, independently for each parameter."""
    return Verdict.all(_tests(draw, thorough), f"alpha {ALPHA:g} over {TESTS} tests")
