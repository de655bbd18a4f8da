"""Standard errors and their notes against their definitions."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import numpy as np
import pytest

from sdi.scores.estimated_error import estimated_variance
from sdi.scores.standard_error import Z95, doubts, sizes, standard_error, standard_error_by_parameter
from sdi.sketch.shipped.count_and_tensor import CountSketch
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

SHAPES = {"w": (9, 8), "b": (40,), "small": (3,)}
SKETCH = SketchMap.draw(SHAPES, m=12)
ETA = np.array([0.5, 2.0, 1.5])
FACTORS = np.array([4 / 144 + 6 / 12, 2 / 12, 0.0])
HALF, SINGLE = np.dtype(np.float16), np.dtype(np.float32)


def features(n: int, steps: int | None, outside: bool = False) -> Features:
    rng = np.random.default_rng(n)
    shape = (n, SKETCH.size) if steps is None else (n, steps, SKETCH.size)
    extra = rng.normal(size=(n, SKETCH.size)) if outside else None
    tau = np.full(n, steps or 1)
    return Features(rng.normal(size=shape), tau, SKETCH.blocks, SKETCH.label, outside=extra)


def squares(x: np.ndarray) -> np.ndarray:
    return np.array([(x[block.start : block.stop] ** 2).sum() for block in SKETCH.blocks])


def parts(train: Features, query: Features, i: int, j: int, t: int, half: bool, bars: str) -> np.ndarray:
    """The variance of each parameter's part of sdi[i, j, t], by the definition."""
    g, phi = train.g[i], query.values[j, t]
    found = np.zeros(3)
    if bars == "bound":
        found += FACTORS * squares(g) * squares(phi)
    else:
        for p in range(3):
            alone = np.arange(3) == p
            found[p] += estimated_variance(SKETCH, g[None], phi[None], 1.0 * alone)[0, 0]
    if half:
        stored = sum(squares(x) for x in train.values[i]) if train.has_steps else squares(train.values[i])
        stored = stored + (squares(train.outside[i]) if train.outside is not None and train.has_steps else 0)
        found += 2.0**-22 * (stored * squares(phi) + squares(g) * squares(phi))
    return found * ETA**2


@pytest.mark.parametrize("bars", ["bound", "estimated"])
@pytest.mark.parametrize("dtype", [HALF, SINGLE])
@pytest.mark.parametrize(("steps", "outside"), [(None, False), (2, False), (3, True)])
def test_each_parameters_error_and_the_whole_are_what_the_definition_says(bars, dtype, steps, outside):
    train, query = features(3, steps, outside), features(2, 4)
    a, b = sizes(train, dtype, whole=True), sizes(query, dtype, whole=False)
    each = standard_error_by_parameter(SKETCH, a, b, ETA, bars)
    whole = standard_error(SKETCH, a, b, ETA, bars)
    assert each.shape == (3, 2, 4, 3)
    assert whole.shape == (3, 2, 4)
    for i, j, t in np.ndindex(3, 2, 4):
        wanted = parts(train, query, i, j, t, dtype == HALF, bars)
        assert np.allclose(each[i, j, t] ** 2, wanted, rtol=1e-10, atol=0)
        if bars == "bound":
            assert abs(whole[i, j, t] - sqrt(wanted.sum())) <= 1e-12 * whole[i, j, t]
    if bars == "estimated":
        rounding = 0 if dtype == SINGLE else whole**2 - standard_error(
            SKETCH, a._replace(rounding=None), b._replace(rounding=None), ETA, bars) ** 2  # fmt: skip
        assert np.allclose(whole**2 - rounding, estimated_variance(SKETCH, a.values, b.values, ETA), rtol=1e-10)


def test_rounding_is_a_matter_of_half_precision_on_both_sides():
    train, query = features(3, 2), features(2, 4)
    a, b = sizes(train, HALF, whole=True), sizes(query, HALF, whole=False)
    alone = sizes(train, SINGLE, whole=True), sizes(query, SINGLE, whole=False)
    assert alone[0].rounding is None
    exact = standard_error(SKETCH, *alone, ETA)
    assert np.array_equal(standard_error(SKETCH, a, alone[1], ETA), exact)
    assert np.array_equal(standard_error(SKETCH, alone[0], b, ETA), exact)
    assert (standard_error(SKETCH, a, b, ETA) > exact).all()


def test_the_bound_is_what_is_taken_where_nothing_is_said():
    a, b = sizes(features(3, 2), SINGLE, whole=True), sizes(features(2, 4), SINGLE, whole=False)
    for function in (standard_error, standard_error_by_parameter):
        assert np.array_equal(function(SKETCH, a, b, ETA), function(SKETCH, a, b, ETA, "bound"))
    coarse = SketchMap({"b": CountSketch.draw((99,), 20)}, {"b": (99,)})
    assert doubts(coarse) == doubts(coarse, "bound") != doubts(coarse, "estimated")


def test_95_percent_of_a_normal_number_lie_within():
    assert abs(Z95 - NormalDist().inv_cdf(0.975)) < 1e-12


@pytest.mark.parametrize(("bars", "m", "said"), [
    ("bound", 33, None), ("bound", 32, "cover less of the influence"), ("bound", 3, "cover less of the influence"),
    ("bound", 2, "far too small for b:"), ("estimated", 9, None), ("estimated", 8, "cover less of the influence"),
    ("estimated", 2, "far too small for b:"),
])  # fmt: skip
def test_a_sketch_that_is_too_coarse_is_said_to_be(bars, m, said):
    sketch = SketchMap(
        {"b": CountSketch.draw((99,), m), "fine": CountSketch.draw((99,), 90)}, {"b": (99,), "fine": (99,)}
    )
    notes = doubts(sketch, bars)
    assert len(notes) == (said is not None)
    if said is not None:
        assert said in notes[0]
        assert f"up to {sqrt(2 / m):.2g} times the norms (b)" in notes[0]
        if m > 2:
            assert notes[0].endswith("use stderr='estimated' or a larger m" if bars == "bound" else "use a larger m")
        else:
            assert notes[0].endswith("; take a larger m")
        assert notes[0].startswith("error bars of 95% may cover less" if m > 2 else "error bars may be far too small")


def test_all_that_are_far_too_coarse_are_named():
    sketch = SketchMap({name: CountSketch.draw((9,), 2) for name in ("c", "a")}, {"c": (9,), "a": (9,)})
    assert "far too small for c, a: " in doubts(sketch)[0]


def test_norms_of_single_precision_are_taken_in_double_precision():
    small = np.full((1, SKETCH.size), 1e-30, dtype=np.float32)
    made = Features(small, np.ones(1, dtype=int), SKETCH.blocks, SKETCH.label)
    wanted = [(block.stop - block.start) * float(small[0, 0]) ** 2 for block in SKETCH.blocks]
    assert np.allclose(sizes(made, SINGLE, whole=True).squares[0], wanted, rtol=1e-12, atol=0)


def test_the_coarsest_is_named():
    sketch = SketchMap({"a": CountSketch.draw((99,), 4), "z": CountSketch.draw((99,), 30)}, {"a": (99,), "z": (99,)})
    assert doubts(sketch)[0].count("times the norms (a)") == 1
