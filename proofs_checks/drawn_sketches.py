"""The sketches that SketchMap.draw really draws have the mean and the variance of the theory, at working sizes.

Statistical, since 48 x 40 matrices cannot be enumerated: for each family of randomness, N draws with the seeds
0, ..., N - 1 (N a constant below, not a stopping rule), of two matrices of one shape and a vector at m = 32.

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

from sdi import bounds
from sdi.sketch import Sketch
from sdi.sketch_map import SketchMap
from sdi.sketches import CountSketch, TensorSketch

from .statement import Verdict, statement

Array = np.ndarray
Draw = Callable[[dict[str, tuple[int, ...]], int, int, str], SketchMap]
SHAPES: dict[str, tuple[int, ...]] = {"q": (48, 40), "k": (48, 40), "b": (90,)}
M, ALPHA, TESTS = 32, 1e-6, 18  # tests: two families times (three means, three variances, three covariances)


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


def _ignores_seeds(shapes: dict[str, tuple[int, ...]], m: int, seed: int, family: str) -> SketchMap:
    return draw(shapes, m, seed % 7, family)


def _arrays() -> tuple[dict[str, Array], dict[str, Array]]:
    """Gradients with structure: an outer product, which is the hard case, and noise; g and p correlated."""
    rng = np.random.default_rng(1)
    u, v, w = (0.5 + rng.standard_normal(d) for d in (48, 40, 90))
    outer = np.outer(u, v)
    q, k, y = (outer + 0.5 * rng.standard_normal((48, 40)) for _ in range(3))
    return {"q": q, "k": q, "b": w}, {"q": y, "k": y + 0.1 * k, "b": w + rng.standard_normal(90)}


def _tests(draw: Draw, thorough: bool) -> Iterator[tuple[Any, str]]:
    N = 10000 if thorough else 1000
    limit = NormalDist().inv_cdf(1 - ALPHA / TESTS / 2)
    g, p = _arrays()
    stacked = {name: np.stack([g[name], p[name]]) for name in SHAPES}
    mu = {name: float((g[name] * p[name]).sum()) for name in SHAPES}
    var = {name: float(bounds.tensor_sketch_variance(g[name], p[name], M)) for name in ("q", "k")}
    var["b"] = float(bounds.count_sketch_variance(g["b"], p["b"], M))
    for family in ("table", "polynomial"):
        sketched = np.stack([draw(SHAPES, M, seed, family).apply(stacked) for seed in range(N)])  # (N, 2, 3 m)
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
    },
)
def drawn_sketches_behave(draw: Draw, thorough: bool) -> Verdict:
    """Sketches as drawn, in both families, have the exact mean and variance, independently for each parameter."""
    return Verdict.all(_tests(draw, thorough), f"alpha {ALPHA:g} over {TESTS} tests")
