"""What `SketchMap.draw` draws of each shipped variant has the mean and the variance of its statement, at larger sizes.

Statistical, since these cannot be listed: N draws with the seeds 0, ..., N - 1 of one mixed map, which gives every kind
two 12 x 10 matrices. For each, z = (average Z - X . Y) sqrt(N / Var) and
z = (average (Z - X . Y)^2 - Var) sqrt(N / V4), with Var exact and V4 the measured variance of (Z - X . Y)^2; for
neighbours, of one kind and of two, z = average of (Z_1 - mu_1)(Z_2 - mu_2) sqrt(N / (Var_1 Var_2)).

The scale of a dense projection hides in these: normal numbers 5 % too large make the mean 10 % too large, which is one
standard deviation of a single Z. Norms of columns vary far less: the average of |S e_k|^2 over some columns and all
draws must be 1, to 1e-12 for the kinds where every column has that norm, else within measured standard errors.

Each z is compared two-sided with the normal quantile for alpha = 1e-6 divided by the number of tests; for the variance
alpha is nominal, the fourth moment being measured. Seeds are fixed, so a run fails always or never. The mutants show
the power: each must be rejected by the same test.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache
from itertools import pairwise
from statistics import NormalDist
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.shipped.gaussian import GaussianSketch
from sdi.sketch.shipped.hadamard import padded
from sdi.sketch.shipped.rademacher import RademacherSketch
from sdi.sketch.sketch_map import SketchMap

from ..machinery.agreement import Case
from ..machinery.statement import Verdict, statement
from .gaussian import gaussian_variance
from .hadamard import hadamard_variance
from .kronecker import kronecker_variance, sides_of
from .mask import mask_variance

Array = np.ndarray
Draw = Callable[[Mapping[str, tuple[int, ...]], int, int], SketchMap]
SHAPE, M, ALPHA = (12, 10), 16, 1e-6
N_HADAMARD = padded(SHAPE[0]) * padded(SHAPE[1])
VARIANCES: dict[str, Callable[[Any, Array, Array], float]] = {
    "tensor": lambda s, X, Y: bounds.tensor_sketch_variance(X, Y, M),
    "gaussian": lambda s, X, Y: gaussian_variance(X.ravel(), Y.ravel(), M),
    "rademacher": lambda s, X, Y: bounds.count_sketch_variance(X.ravel(), Y.ravel(), M),
    "kronecker": lambda s, X, Y: kronecker_variance(X, Y, *sides_of(s)),
    "sparse": lambda s, X, Y: bounds.count_sketch_variance(X.ravel(), Y.ravel(), M),
    "hadamard": lambda s, X, Y: hadamard_variance(X, Y, M, N_HADAMARD),
    "mask": lambda s, X, Y: mask_variance(X.ravel(), Y.ravel(), M),
}
SHAPES = {f"{kind}.{i}": SHAPE for kind in VARIANCES for i in (0, 1)}
TESTS = 4 * len(SHAPES) - 1
COLUMNS = 12  # of 120, spread over the parameter


def draw(shapes: Mapping[str, tuple[int, ...]], m: int, seed: int) -> SketchMap:
    return _drawn(tuple(shapes.items()), m, seed)


@cache  # the mutants change one sketch of the same maps
def _drawn(shapes: tuple[tuple[str, tuple[int, ...]], ...], m: int, seed: int) -> SketchMap:
    return SketchMap.draw(dict(shapes), m, seed=seed, sketch={f"{kind}.*": kind for kind in VARIANCES})


def _changed(sketch: SketchMap, **changes: Any) -> SketchMap:
    return SketchMap({**sketch.sketches, **{name.replace("_", "."): s for name, s in changes.items()}}, sketch.shapes)


def _ignores_names(shapes: Mapping[str, tuple[int, ...]], m: int, seed: int) -> SketchMap:
    sketch = draw(shapes, m, seed)
    return _changed(sketch, sparse_1=sketch.sketches["sparse.0"])


def _uniform_for_normal(shapes: Mapping[str, tuple[int, ...]], m: int, seed: int) -> SketchMap:
    sketch = draw(shapes, m, seed)
    table = np.random.default_rng(seed).uniform(-1, 1, (m, 120))
    return _changed(sketch, gaussian_0=GaussianSketch(table, SHAPE))


def _wider_normals(shapes: Mapping[str, tuple[int, ...]], m: int, seed: int) -> SketchMap:
    sketch = draw(shapes, m, seed)
    table = sketch.sketches["gaussian.1"].tables()["table"]
    return _changed(sketch, gaussian_1=GaussianSketch(1.05 * table, SHAPE))


def _ignores_seeds(shapes: Mapping[str, tuple[int, ...]], m: int, seed: int) -> SketchMap:
    again = draw({"hadamard.1": SHAPE}, m, seed % 5)
    return _changed(draw(shapes, m, seed), hadamard_1=again.sketches["hadamard.1"])


def _few_signs(shapes: Mapping[str, tuple[int, ...]], m: int, seed: int) -> SketchMap:
    sketch = draw(shapes, m, seed)
    signs = sketch.sketches["rademacher.0"].tables()["signs"].copy()
    signs[:, 60:] = signs[:, :60]
    return _changed(sketch, rademacher_0=RademacherSketch(signs, SHAPE))


def _arrays() -> tuple[Array, Array]:
    """An outer product, which is the hard case for two-sided ones, and noise; X and Y are correlated."""
    rng = np.random.default_rng(1)
    outer = np.outer(0.5 + rng.standard_normal(SHAPE[0]), 0.5 + rng.standard_normal(SHAPE[1]))
    X, Y = (outer + 0.5 * rng.standard_normal(SHAPE) for _ in range(2))
    return X, Y


def _tests(draw: Draw, thorough: bool) -> Iterator[Case]:
    N = 2500 if thorough else 250
    limit = NormalDist().inv_cdf(1 - ALPHA / TESTS / 2)
    X, Y = _arrays()
    mu = float((X * Y).sum())
    columns = np.eye(X.size)[:: X.size // COLUMNS].reshape(-1, *SHAPE)
    stacked = {name: np.stack([X, Y, *columns]) for name in SHAPES}
    drawn = [draw(SHAPES, M, seed) for seed in range(N)]
    blocks = {b.name: slice(b.start, b.stop) for b in drawn[0].blocks}
    sketched = np.stack([sketch.apply(stacked) for sketch in drawn])  # (N, 2 + columns, numbers)
    off = {name: (sketched[:, 0, at] * sketched[:, 1, at]).sum(-1) - mu for name, at in blocks.items()}
    var = {name: float(VARIANCES[name.split(".")[0]](drawn[0].sketches[name], X, Y)) for name in SHAPES}
    for name in SHAPES:
        z = off[name].mean() * (N / var[name]) ** 0.5
        yield abs(z) <= limit, f"{name}: the mean is {z:.1f} standard errors off"
        square = off[name] ** 2
        z = (square.mean() - var[name]) * (N / max(square.var(), 1e-300)) ** 0.5
        yield abs(z) <= limit, f"{name}: the variance is {z:.1f} standard errors off"
        norms = (sketched[:, 2:, blocks[name]] ** 2).sum(-1).mean(axis=1)
        allowed = max(limit * (norms.var() / N) ** 0.5, 1e-12)
        text = f"{name}: the squared norms of the columns are {norms.mean():.4f} on average, not 1"
        yield abs(norms.mean() - 1) <= allowed, text
    for one, other in pairwise(SHAPES):
        z = (off[one] * off[other]).mean() * (N / (var[one] * var[other])) ** 0.5
        yield abs(z) <= limit, f"{one} and {other}: the covariance is {z:.1f} standard errors from 0"


@statement(
    "drawn_variants",
    paper="beside the paper: the shipped sketches as drawn",
    method="statistical",
    claim=draw,
    mutants={
        "one sketch for two parameters": _ignores_names,
        "uniform numbers for normal ones": _uniform_for_normal,
        "normal numbers 5 % too large": _wider_normals,
        "five seeds only": _ignores_seeds,
        "half the signs are those of the other half": _few_signs,
    },
)
def drawn_variants_behave(draw: Draw, thorough: bool) -> Verdict:
    """Shipped variants as drawn, in one mixed map, have the exact mean and variance, independently of one another."""
    return Verdict.all(_tests(draw, thorough), f"alpha {ALPHA:g} over {TESTS} tests")
