"""Every sketch by its definition: one linear map, all its draws, its variance, its tables."""

from __future__ import annotations

from math import prod, sqrt
from typing import Any

import numpy as np
import pytest
from sketch_cases import EXACT, NAMES

from sdi import Sketch, SketchMap, load_sketch
from sdi.sketch.bounds import worst_case
from sdi.sketch.hashing import distinct, distinct_columns, normals, sign_bits
from sdi.sketch.shipped.hadamard import hadamard
from sdi.sketch.shipped.kronecker import best_sides


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(7, 5), (9,), (1, 6), (6, 1)])
@pytest.mark.parametrize("m", [1, 6, 100])
def test_apply_outer_dense_and_apply_are_one_map(name: str, shape: tuple[int, ...], m: int) -> None:
    sketch: Any = load_sketch(name).draw(shape, m, seed=1, name="w")  # type: ignore[attr-defined]
    assert isinstance(sketch, Sketch)
    assert (sketch.shape, sketch.apply(np.ones(shape, np.float32)).dtype) == (shape, np.float32)
    assert sketch.size <= max(m, 0 if name != "exact" else prod(shape))
    rng, d_in = np.random.default_rng(0), (*shape, 1)[1]
    u, v = rng.standard_normal((2, 3, 4, shape[0])), rng.standard_normal((2, 3, 4, d_in))
    G = np.einsum("...ti,...tj->...ij", u, v).reshape(2, 3, *shape)
    np.testing.assert_allclose(sketch.apply_outer(u, v), sketch.apply(G), atol=1e-12)
    np.testing.assert_allclose(sketch.apply(G), G.reshape(2, 3, -1) @ sketch.dense().T, atol=1e-12)
    assert sketch.apply_outer(u[:, :, :0], v[:, :, :0]).shape == (2, 3, sketch.size)
    if name in EXACT:
        Z = sketch.integers(np.eye(prod(shape), dtype=np.int64).reshape(-1, *shape)).T
        assert Z.dtype == np.int64
        np.testing.assert_allclose(Z * sqrt(sketch.squared_scale), sketch.dense(), atol=1e-15)


TINY = [
    ("tensor", (2, 2), 2), ("tensor", (3,), 2), ("rademacher", (2, 2), 2), ("kronecker", (2, 3), 2),
    ("sparse", (3,), 2), ("sparse-1", (2, 2), 2), ("hadamard", (2, 2), 2), ("hadamard", (3,), 2), ("mask", (2, 2), 2),
    ("exact", (2, 2), 2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "m"), TINY)
def test_what_is_drawn_is_among_all_draws_whose_mean_is_the_identity(name: str, shape: tuple[int, ...], m: int) -> None:
    cls: Any = load_sketch(name)
    listed = list(cls.enumerate_all(shape, m))
    assert sum(p for p, _ in listed) == 1
    gram = np.array([s.dense().T @ s.dense() for _, s in listed])
    weights = np.array([float(p) for p, _ in listed])
    np.testing.assert_allclose(np.tensordot(weights, gram, axes=1), np.eye(prod(shape)), atol=1e-12)
    drawn = {cls.draw(shape, m, seed=seed, name="w").identity for seed in range(40)}
    assert drawn <= {s.identity for _, s in listed}
    assert len(drawn) >= min(len(listed), 15) * (0.5 if name != "mask" else 0.9)
    x = np.ones(prod(shape))
    variance = weights @ (x @ gram @ x) ** 2 - prod(shape) ** 2
    assert variance <= listed[0][1].variance_factor() * prod(shape) ** 2 + 1e-9


def test_the_variance_factors_are_the_closed_forms() -> None:
    def factor(name: str, shape: tuple[int, ...], m: int) -> float:
        return worst_case(load_sketch(name).draw(shape, m, seed=0, name="w"))  # type: ignore[attr-defined]

    for name in ("gaussian", "rademacher", "sparse", "sparse-1"):
        assert factor(name, (9, 9), 8) == 2 / 8
    assert factor("kronecker", (99, 99), 16) == pytest.approx((1 + 2 / 4) ** 2 - 1)
    assert factor("kronecker", (99,), 16) == factor("kronecker", (1, 99), 16) == pytest.approx(2 / 16)
    assert factor("hadamard", (5, 5), 16) == pytest.approx((64 - 16) / 63 * 8 / 16)
    assert factor("hadamard", (5,), 4) == factor("hadamard", (1, 5), 4) == pytest.approx((8 - 4) / 7 * 2 / 4)
    assert factor("mask", (5, 5), 10) == 1.5
    assert factor("exact", (5, 5), 10) == factor("mask", (5, 5), 25) == factor("hadamard", (4, 4), 16) == 0


def test_best_sides_is_what_trying_all_finds() -> None:
    def factor(k: tuple[int, int], d: tuple[int, int]) -> float:
        return prod(1 + (2 / a if a < b else 0) for a, b in zip(k, d, strict=True))

    for d in ((3, 5), (8, 8), (20, 2), (1, 9), (30, 40)):
        for m in (1, 2, 3, 7, 16, 60, 200):
            k = best_sides(d, m)
            assert k[0] * k[1] <= m
            every = [(a, b) for a in range(1, d[0] + 1) for b in range(1, d[1] + 1) if a * b <= m]
            assert factor(k, d) == pytest.approx(min(factor(pair, d) for pair in every))


def test_the_tables_of_the_variants_have_not_changed() -> None:
    """Golden values: features on disk were made with these tables. Change them only together with the version."""
    shapes = {"core.w": (12, 10), "core.b": (20,)}
    assert {name: SketchMap.draw(shapes, 9, 7, sketch=name).identity for name in NAMES} == {
        "tensor": "3da853b26b4c",
        "gaussian": "b924605fb8e0",
        "rademacher": "975d8ccd5d2e",
        "kronecker": "0459016cc898",
        "sparse": "25a72c368698",
        "hadamard": "2f2875ad88df",
        "mask": "46b6586a9391",
        "exact": "f2281194ce1c",
        "sparse-1": "5c07df134558",
    }


def test_distinct_numbers_are_uniform_sets() -> None:
    """All 10 sets of 2 out of 5, 2000 draws: each count within five deviations of 200, by chance wrong once in 10^5."""
    columns = distinct_columns(2000, 2, 5, "any")
    alone = np.array([distinct(2, 5, "any", k) for k in range(2000)])
    for sets in (np.sort(columns, axis=1), alone):
        assert (sets[:, 0] < sets[:, 1]).all()
        counts = np.unique(sets @ (5, 1), return_counts=True)[1]
        assert len(counts) == 10
        assert np.abs(counts - 200).max() < 5 * sqrt(200 * 0.9)
    assert np.array_equal(distinct(7, 7, "w"), np.arange(7))


def test_sign_bits_are_as_many_as_asked_and_fair() -> None:
    """Mean of 10^5: five standard errors, failing by chance once in 10^6."""
    signs = sign_bits(10**5, "w")
    assert set(signs.tolist()) == {-1, 1}
    assert abs(signs.astype(int).sum()) < 5 * sqrt(10**5)
    for count in (1, 63, 64, 65):
        assert np.array_equal(sign_bits(count, "w"), signs[:count])


def test_normals_are_normal_and_on_their_grid() -> None:
    """Moments of 10^5: five standard errors each, failing by chance once in 10^6."""
    x = normals(10**5, 3, "w").astype(np.float64)
    for power, mean in ((1, 0), (2, 1), (3, 0), (4, 3)):
        values = x**power
        assert abs(values.mean() - mean) < 5 * values.std() / sqrt(len(x))
    assert np.array_equal(x * 2**20, np.rint(x * 2**20))
    assert np.array_equal(normals(5, 3, "w"), x[:5])


def test_the_sign_of_hadamards_matrix_counts_every_bit_that_two_numbers_share() -> None:
    bit = np.array([1 << k for k in range(63)])
    assert (hadamard(bit, bit) == 1 - 2 * np.eye(63, dtype=int)).all()
    assert hadamard(bit[30:34].sum(keepdims=True), bit[31:34].sum(keepdims=True)).tolist() == [[-1]]
