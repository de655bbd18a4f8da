"""spread: the widths are the bound's optimum, within the budget, and lower the error of real sketches."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sdi
from sdi.bench.commands.fidelity import relative
from sdi.run.spread import best_widths, share, smooth_above, smooth_below, spread
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features

pytestmark = pytest.mark.slow


def bound(widths: dict[str, int], cost: dict[str, float], sizes: dict[str, int]) -> float:
    return sum(c / widths[name] for name, c in cost.items() if widths[name] < sizes[name])


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 5000)), min_size=1, max_size=8),
    st.integers(1, 300),
)
def test_widths_stay_within_the_budget_and_the_sizes(parts: list[tuple[float, int]], m: int) -> None:
    cost = {str(k): c for k, (c, _) in enumerate(parts)}
    sizes = {str(k): size for k, (_, size) in enumerate(parts)}
    total = sum(min(m, size) for size in sizes.values())
    widths = share(cost, sizes, total)
    assert sum(widths.values()) <= total
    assert all(1 <= widths[name] <= sizes[name] for name in sizes)
    assert all(m == sizes[name] or smooth_below(m) == m for name, m in widths.items())


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-3, 1e3), min_size=2, max_size=6), st.integers(64, 512))
def test_the_bound_is_near_its_optimum_and_below_equal_widths(costs: list[float], m: int) -> None:
    cost = {str(k): c for k, c in enumerate(costs)}
    sizes = dict.fromkeys(cost, 10**9)
    total = m * len(cost)
    optimum = sum(np.sqrt(c) for c in costs) ** 2 / total
    found = bound(share(cost, sizes, total), cost, sizes)
    assert optimum <= found * (1 + 1e-12)
    assert found <= 1.10 * optimum  # a width may lie 6% below its share before what is left is spent


def test_small_problems_are_solved_nearly_as_well_as_by_trying_everything() -> None:
    for cost, sizes, total in (
        ({"a": 9.0, "b": 1.0, "c": 4.0}, {"a": 40, "b": 40, "c": 8}, 40),
        ({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 3, "b": 30, "c": 30}, 24),
        ({"a": 100.0, "b": 1.0, "c": 0.0}, {"a": 12, "b": 50, "c": 50}, 30),
        ({"a": 1e9, "b": 1.0, "c": 1.0}, {"a": 9, "b": 50, "c": 50}, 10),  # a kept would leave 1 for two
    ):
        all_widths = (dict(zip(sizes, w, strict=True)) for w in product(*(range(1, s + 1) for s in sizes.values())))
        best = min(bound(w, cost, sizes) for w in all_widths if sum(w.values()) <= total)
        assert bound(share(cost, sizes, total), cost, sizes) <= 1.15 * best + 1e-12


def test_the_rule_is_the_square_root_and_vectors_count_a_third() -> None:
    g = np.zeros((1, 3, 3))
    g[0, :, 0], g[0, :, 1], g[0, :, 2] = 1.0, 2.0, 1.0
    shapes = {"one": (100, 100), "two": (100, 100), "vector": (10000,)}
    blocks = tuple(sdi.Block(name, shape, k, k + 1) for k, (name, shape) in enumerate(shapes.items()))
    widths = spread(Features(g, np.array([3]), blocks, "pilot"), m=1000)
    # |g|^2 |phi|^2 is 16 times as large: its root 4 times
    assert widths["two"] / widths["one"] == pytest.approx(4, rel=0.1)
    assert widths["one"] / widths["vector"] == pytest.approx(3**0.5, rel=0.1)


def test_numbers_without_large_prime_factors_are_found() -> None:
    def is_smooth(x: int) -> bool:
        for prime in (2, 3, 5):
            while x % prime == 0:
                x //= prime
        return x == 1

    for x in range(1, 700):
        assert smooth_below(x) == max(y for y in range(1, x + 1) if is_smooth(y))
        assert smooth_above(x) == next(y for y in range(x + 1, 2 * x + 1) if is_smooth(y))


def test_a_budget_below_one_number_each_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 for each of the 3 parameters that has so many, got 2"):
        share({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 9, "b": 9, "c": 9}, 2)
    with pytest.raises(ValueError, match="m must be at least 1, got 0"):
        spread(Features(np.ones((1, 1, 1)), np.array([1]), (sdi.Block("w", (9,), 0, 1),), "pilot"), 0)


def test_one_width_for_each_parameter_draws_names_and_comes_back() -> None:
    shapes = {"w": (9, 9), "b": (5,)}
    drawn = SketchMap.draw(shapes, {"b": 5, "w": 20}, seed=3)
    assert [b.stop - b.start for b in drawn.blocks] == [20, 5]
    assert drawn.sketches["w"] == SketchMap.draw(shapes, 20, seed=3).sketches["w"]
    assert "m=5..20" in drawn.label
    assert SketchMap.from_json(drawn.to_json()) == drawn
    with pytest.raises(sdi.SketchMismatch, match=r"m must give a width for each of .* one side only: \['b', 'c'\]"):
        SketchMap.draw(shapes, {"w": 9, "c": 9})


def mean_error(model, batch, widths, truth, seeds: int = 12) -> float:
    fast = sdi.backend("fast")
    loop = model.config.loop()
    shapes = fast.body_shapes(model, loop)
    found = []
    for seed in range(seeds):
        sketch = SketchMap.draw(shapes, widths, seed)
        f = fast.featurize(model, sdi.fast.token_cross_entropy, batch, loop=loop, sketch=sketch)
        found.append(relative(fast.sdi(f, f), truth))
    return float(np.mean(found))


def test_spread_bytes_lower_the_error_and_the_inverted_rule_raises_it() -> None:
    """Twelve sketch seeds, fixed beforehand; the three errors differ by tens of standard errors."""
    import sdi.fast as fast

    config = sdi.LoopedConfig.looped_gpt(
        vocab=32, classes=32, d=24, heads=2, tau=3, prelude=0, core=1, coda=0, length=8
    )
    model = fast.LoopedTransformer.init(config, seed=0)  # [I | I]: the injection's gradient is the largest by far
    loop, shapes = config.loop(), fast.body_shapes(model, config.loop())
    random = torch.Generator().manual_seed(0)
    batch, other = (
        {name: torch.randint(0, 32, (3, 8), generator=random) for name in ("tokens", "targets")} for _ in range(2)
    )
    exact = fast.featurize(model, fast.token_cross_entropy, batch, loop=loop)
    truth = fast.sdi(exact, exact)
    pilot = fast.featurize(model, fast.token_cross_entropy, other, loop=loop, sketch=SketchMap.draw(shapes, 64, 99))
    widths = spread(pilot, m=48)
    assert sum(widths.values()) <= 48 * len(shapes)
    cost = {name: 1 / m**2 for name, m in widths.items()}
    inverted = share(cost, {name: prod(shape) for name, shape in shapes.items()}, 48 * len(shapes))
    equal, spent, wrong = (mean_error(model, batch, w, truth) for w in (48, widths, inverted))
    assert spent < 0.8 * equal
    assert wrong > 1.2 * equal


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(1, 5000)), min_size=1, max_size=8),
    st.integers(1, 300),
)
def test_it_is_never_worse_than_one_m_and_no_width_is_tiny(parts: list[tuple[float, int]], m: int) -> None:
    cost = {str(k): c for k, (c, _) in enumerate(parts)}
    sizes = {str(k): size for k, (_, size) in enumerate(parts)}
    widths, equal = best_widths(cost, sizes, m), {name: min(m, size) for name, size in sizes.items()}
    assert bound(widths, cost, sizes) <= bound(equal, cost, sizes) * (1 + 1e-12)
    assert sum(widths.values()) <= sum(equal.values())
    assert all(k >= min(sizes[name], m // 32) for name, k in widths.items())
