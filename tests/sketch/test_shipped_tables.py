"""Shipped sketches made by hand: which tables are refused, whole numbers that stay whole, and all draws listed."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import pytest
from sketch_cases import EXACT, NAMES

from sdi import load_sketch
from sdi.sketch.estimate_variance import Pairs, between, over_entries, over_grid
from sdi.sketch.load import sketch_text
from sdi.sketch.shipped import hadamard, sparse
from sdi.sketch.shipped.count_and_tensor import LONG, CountSketch, Keep, TensorSketch
from sdi.sketch.shipped.gaussian import GaussianSketch
from sdi.sketch.shipped.hadamard import HadamardSketch
from sdi.sketch.shipped.kronecker import KroneckerSketch, best_sides
from sdi.sketch.shipped.mask import MaskSketch
from sdi.sketch.shipped.rademacher import RademacherSketch
from sdi.sketch.shipped.scaled_integers import as_floats, check_signs
from sdi.sketch.shipped.sparse import SparseSketch

ONES = np.ones((6, 2), dtype=int)


def had(**changed: Any) -> Any:
    """The signs and pairs of a (3, 2) parameter: rows below 4, columns below 2."""
    tables = {"out_signs": [1, -1, 1], "in_signs": [1, -1], "out_at": [0, 3], "in_at": [1, 0], **changed}
    return lambda: HadamardSketch(**{name: np.array(table) for name, table in tables.items()}, of=(3, 2))


def spa(rows: Any, signs: Any = ONES, m: int = 3) -> Any:
    return lambda: SparseSketch(np.array(rows), np.array(signs), m, (3, 2))


def msk(index: Any) -> Any:
    return lambda: MaskSketch(np.array(index), (3, 2))


ROWS = [[0, 2]] * 6
REFUSED = [
    (had(out_signs=[1, -1]), "out_signs must have shape (3,), got (2,)"),
    (had(in_signs=[[1, -1]]), "in_signs must have shape (2,), got (1, 2)"),
    (had(in_signs=[1, 0]), "in_signs must hold -1 and +1, at least one, got [0 1]"),
    (had(out_signs=[2, 1, 1]), "out_signs must hold -1 and +1, at least one, got [1 2]"),
    (had(out_at=[[0, 3]]), "out_at must hold integers from 0 to 3, got int64 [[0 3]]"),
    (had(out_at=[0.0, 3.0]), "out_at must hold integers from 0 to 3, got float64 [0. 3.]"),
    (had(out_at=[], in_at=[]), "out_at must hold integers from 0 to 3, got float64 []"),
    (had(out_at=np.zeros(0, int)), "out_at must hold integers from 0 to 3, got int64 []"),
    (had(out_at=[0, -1]), "out_at must hold integers from 0 to 3, got int64 [ 0 -1]"),
    (had(out_at=[0, 4]), "out_at must hold integers from 0 to 3, got int64 [0 4]"),
    (had(in_at=[0, 2]), "in_at must hold integers from 0 to 1, got int64 [0 2]"),
    (had(out_at=[3, 3], in_at=[1, 1]), "the pairs (out_at, in_at) must be distinct"),
    (lambda: KroneckerSketch(np.ones(3), None, (3, 2)), "left must have shape (k, 3), got (3,)"),
    (lambda: KroneckerSketch(np.ones((2, 2)), None, (3, 2)), "left must have shape (k, 3), got (2, 2)"),
    (lambda: KroneckerSketch(None, np.ones((2, 3)), (3, 2)), "right must have shape (k, 2), got (2, 3)"),
    (lambda: KroneckerSketch(None, np.zeros((1, 2)), (3, 2)), "right must hold -1 and +1, at least one, got [0.]"),
    (lambda: KroneckerSketch(np.zeros((1, 3)), None, (3, 2)), "left must hold -1 and +1, at least one, got [0.]"),
    (spa([0, 2] * 6), "rows and signs must be (6, s), got (12,) and (6, 2)"),
    (spa(ROWS, np.ones((6, 3))), "rows and signs must be (6, s), got (6, 2) and (6, 3)"),
    (spa([[0, 2]] * 5, np.ones((5, 2))), "rows and signs must be (6, s), got (5, 2) and (5, 2)"),
    (spa([[0.0, 2.0]] * 6), "rows must hold integers from 0 to m - 1 = 2, got 0.0..2.0"),
    (spa([[-1, 2]] * 6), "rows must hold integers from 0 to m - 1 = 2, got -1..2"),
    (spa([[0, 3]] * 6), "rows must hold integers from 0 to m - 1 = 2, got 0..3"),
    (spa([[1, 1]] * 6), "the rows of one column must be distinct"),
    (spa([[2, 0, 2]] * 6, np.ones((6, 3))), "the rows of one column must be distinct"),
    (spa(ROWS, ONES * 2), "signs must hold -1 and +1, at least one, got [2]"),
    (spa(ROWS, m=0), "m must be at least 1, got 0"),
    (lambda: SparseSketch.with_nonzeros(0), "s must be at least 1, got 0"),
    (msk([[0, 1]]), "index must hold distinct integers from 0 to 5, got [[0 1]]"),
    (msk([0.0, 1.0]), "index must hold distinct integers from 0 to 5, got [0. 1.]"),
    (msk(np.zeros(0, int)), "index must hold distinct integers from 0 to 5, got []"),
    (msk([0, -1]), "index must hold distinct integers from 0 to 5, got [ 0 -1]"),
    (msk([0, 6]), "index must hold distinct integers from 0 to 5, got [0 6]"),
    (msk([5, 0, 5]), "index must hold distinct integers from 0 to 5, got [5 0 5]"),
    (lambda: RademacherSketch(np.zeros((2, 6)), (3, 2)), "signs must hold -1 and +1, at least one, got [0.]"),
    (lambda: RademacherSketch(np.ones((0, 6)), (3, 2)), "signs must hold -1 and +1, at least one, got []"),
    (lambda: check_signs("z", np.ones(2, bool)), "z must hold -1 and +1, at least one, got [ True]"),
    (lambda: check_signs("z", np.ones(2, complex)), "z must hold -1 and +1, at least one, got [1.+0.j]"),
    (lambda: check_signs("z", np.zeros(0, complex)), "z must hold -1 and +1, at least one, got []"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_tables_that_are_no_sketch_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        make()
    assert str(caught.value) == message


def test_tables_at_the_edge_of_what_is_allowed_are_taken_and_kept_in_their_dtypes() -> None:
    sketch = had(out_at=np.array([3, 0], np.uint8), out_signs=np.array([1.0, -1.0, 1.0]))()
    assert {name: table.dtype for name, table in sketch.tables().items()} == {
        "out_signs": np.int8, "in_signs": np.int8, "out_at": np.int64, "in_at": np.int64,
    }  # fmt: skip
    assert had(out_at=[3, 3])().size == had(in_at=[1, 1])().size == 2
    made = SparseSketch(np.array(ROWS, np.uint8), ONES, np.int64(3), [3, 2])  # type: ignore[arg-type]
    assert (made.rows.dtype, made.signs.dtype, type(made.m), made.of) == (np.int32, np.int8, int, (3, 2))
    counted = CountSketch(np.array([0, 2], np.uint8), np.array([1.0, -1.0]), np.int64(3))  # type: ignore[arg-type]
    assert (counted.h.dtype, counted.s.dtype, type(counted.m)) == (np.int64, np.int8, int)
    assert msk(np.array([5, 0], np.uint8))().index.dtype == np.int64
    assert HadamardSketch.draw((3,), 2).in_signs.dtype == np.int8
    assert Keep((np.int64(3), 2)).of == (3, 2)
    assert type(Keep((np.int64(3),)).of[0]) is int


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("shape", [(300,), (20, 15)])
def test_whole_numbers_of_any_width_are_summed_in_64_bits(name: str, shape: tuple[int, ...]) -> None:
    sketch: Any = load_sketch(name).draw(shape, 5)  # type: ignore[attr-defined]
    Z = np.rint(sketch.dense() / float(sketch.squared_scale) ** 0.5).astype(int)
    for dtype, value in ((np.int8, 100), (np.uint8, 200), (bool, True), (np.int64, 2**53 + 1)):
        got = sketch.integers(np.full((2, *shape), value, dtype))
        assert (got.dtype, got.shape) == (np.int64, (2, sketch.size)) or name == "mask"  # which sums nothing
        assert np.array_equal(got, np.tile(Z.sum(axis=1) * int(value), (2, 1)))
        assert sketch.apply(np.full(shape, value, dtype)).dtype == np.float64
    for dtype in (np.float32, np.complex128):
        assert sketch.integers(np.ones(shape, dtype)).dtype == sketch.apply(np.ones(shape, dtype)).dtype == dtype
    thirds = np.full(shape, Fraction(1, 3), dtype=object)
    assert sketch.integers(thirds).tolist() == [Fraction(int(row), 3) for row in Z.sum(axis=1)]


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (7, 8)])
def test_tokens_in_whole_numbers_are_sketched_as_floats(name: str, shape: tuple[int, int]) -> None:
    sketch: Any = load_sketch(name).draw(shape, 6)  # type: ignore[attr-defined]
    u, v = np.full((2, 3, shape[0]), 100, np.int8), np.full((2, 3, shape[1]), 100, np.int8)
    u[0, 1], v[1, 2] = -3, 7
    G = np.einsum("nti,ntj->nij", u.astype(float), v.astype(float))
    if type(sketch).apply_outer is not SparseSketch.apply_outer:
        got = sketch.apply_outer(u, v)
        assert got.dtype == np.float64
        np.testing.assert_allclose(got, sketch.apply(G), rtol=1e-12, atol=1e-9)
    single = sketch.apply_outer(u.astype(np.float32), v.astype(np.float32))
    assert single.dtype == np.float32
    assert (
        as_floats(u).dtype == as_floats(np.ones(2, np.uint8)).dtype == as_floats(np.ones(2, bool)).dtype == np.float64
    )


@pytest.mark.parametrize("chunk", [1, 5 * 3 * 8 * 2, 1 << 26])
def test_the_transforms_entries_are_taken_in_parts(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    sketch = HadamardSketch.draw((6, 5), 7, seed=2)
    X = np.random.default_rng(0).normal(size=(3, 6, 5))
    wanted = X.reshape(3, 30) @ sketch.dense().T
    monkeypatch.setattr(hadamard, "CHUNK_BYTES", chunk)
    np.testing.assert_allclose(sketch.apply(X), wanted, rtol=1e-12)
    assert sketch.apply(X[:0]).shape == (0, 7)


def test_the_memory_of_those_parts_is_what_was_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three arrays of five columns in float64: 120 bytes for each entry of the transform."""
    made: list[int] = []

    class Noting(np.ndarray):
        def __setitem__(self, key: Any, value: Any) -> None:
            made.append(key[-1].stop - key[-1].start)
            super().__setitem__(key, value)

    empty = np.empty
    monkeypatch.setattr(hadamard.np, "empty", lambda *given, **options: empty(*given, **options).view(Noting))
    sketch, X = HadamardSketch.draw((6, 5), 7, seed=2), np.ones((3, 6, 5))
    for chunk, rows in ((120, 1), (359, 2), (360, 3), (1, 1), (1 << 26, (1 << 26) // 120)):
        monkeypatch.setattr(hadamard, "CHUNK_BYTES", chunk)
        made.clear()
        sketch.integers(X)
        assert set(made) == {rows}
        assert len(made) == -(-7 // rows)
    monkeypatch.setattr(hadamard, "CHUNK_BYTES", 2 * 5 * 8)
    for examples, rows in ((0, 2), (1, 2), (2, 1)):
        made.clear()
        sketch.integers(X[:examples])
        assert set(made) == {rows}


LISTED = [
    ("kronecker", (2, 2), 1, 16), ("kronecker", (3, 2), 2, 8), ("kronecker", (2, 3), 2, 8), ("sparse-3", (1,), 3, 8),
    ("sparse-3", (2,), 2, 16), ("sparse-1", (2,), 3, 36), ("hadamard", (2, 2), 3, 64), ("hadamard", (3,), 9, 8),
    ("hadamard", (2, 2), 9, 16), ("mask", (2, 2), 3, 4), ("mask", (3,), 9, 1), ("rademacher", (2,), 2, 16),
    ("tensor", (1, 2), 2, 64), ("tensor", (2,), 3, 36), ("exact", (2, 2), 1, 1),
]  # fmt: skip


@pytest.mark.parametrize(("name", "shape", "m", "count"), LISTED)
def test_all_draws_are_listed_once_with_their_probability(
    name: str, shape: tuple[int, ...], m: int, count: int
) -> None:
    cls: Any = load_sketch(name)
    listed = list(cls.enumerate_all(shape, m))
    assert len(listed) == len({s.identity for _, s in listed}) == count
    assert all(p == Fraction(1, count) and type(p) is Fraction for p, _ in listed)
    assert all(s.shape == shape and s.size == listed[0][1].size <= max(m, 4) for _, s in listed)
    mean = sum(s.dense().T @ s.dense() for _, s in listed) / count
    np.testing.assert_allclose(mean, np.eye(prod(shape)), atol=1e-12)


@pytest.mark.parametrize("cls", [HadamardSketch, KroneckerSketch])
def test_draws_of_a_shape_that_is_none_are_refused_by_name(cls: Any) -> None:
    with pytest.raises(ValueError, match=rf"with sizes of at least 1 for {cls.__name__}, got \(0,\)$"):
        next(iter(cls.enumerate_all((0,), 4)))


def test_the_kronecker_estimate_knows_which_sides_were_drawn() -> None:
    rng = np.random.default_rng(0)
    for shape, m in (((6, 7), 9), ((2, 9), 8), ((9, 2), 8), ((2, 2), 9)):
        sketch = KroneckerSketch.draw(shape, m)
        pairs = Pairs.of(rng.normal(size=(3, sketch.size)), rng.normal(size=(2, sketch.size)))
        drawn = (sketch.left is not None, sketch.right is not None)
        assert drawn == (shape[0] > sketch.k[0], shape[1] > sketch.k[1])
        wanted = between(sketch.variance_factor(), pairs, over_grid(pairs, sketch.k, drawn))
        np.testing.assert_array_equal(sketch.variance_estimate(pairs), wanted)
    assert {tuple(t is None for t in (s.left, s.right)) for s in
            (KroneckerSketch.draw(*case) for case in (((6, 7), 9), ((2, 9), 8), ((9, 2), 8), ((2, 2), 9)))} == {
        (False, False), (True, False), (False, True), (True, True)}  # fmt: skip


def test_other_numbers_of_nonzeros_are_classes_of_their_own() -> None:
    three: Any = SparseSketch.with_nonzeros(3)
    assert (three.__name__, three.kind, three.nonzeros, sketch_text(three)) == (
        "SparseSketch3",
        "sparse",
        3,
        "sparse-3",
    )
    assert SparseSketch.with_nonzeros(3) is three
    assert SparseSketch.with_nonzeros(4) is SparseSketch
    assert three.draw((9,), 8).rows.shape == (9, 3)
    assert three.draw((9,), 2).rows.shape == (9, 2)
    assert SparseSketch.draw((9,), 8).squared_scale == Fraction(1, 4)


def test_sparse_tables_may_be_as_large_as_the_limit_and_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparse, "MOST_BYTES", 12 * 4 * 9)
    assert SparseSketch.draw((9,), 8).size == 8
    with pytest.raises(
        ValueError, match=r"^sketch 'sparse-4' of 'w' with shape \(10,\) needs tables of 480 bytes, over 432"
    ):
        SparseSketch.draw((10,), 8, name="w")


def test_a_vectors_tensor_sketch_is_the_count_sketch_of_the_same_words() -> None:
    for words in ({}, {"seed": 3}, {"name": "w"}, {"family": "polynomial"}):
        made = TensorSketch.draw((9,), 4, **words)  # type: ignore[arg-type]
        assert made == CountSketch.draw((9,), 4, **words)  # type: ignore[arg-type]
    plain = TensorSketch.draw((9, 3), 4)
    assert plain == TensorSketch.draw((9, 3), 4, seed=0, name="", family="table")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lead", [(), (2,), (2, 1, 3)])
def test_tokens_are_summed_whatever_axes_are_before_them(name: str, lead: tuple[int, ...]) -> None:
    sketch: Any = load_sketch(name).draw((7, 5), 6)  # type: ignore[attr-defined]
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(*lead, 4, 7)), rng.normal(size=(*lead, 4, 5))
    got = sketch.apply_outer(u, v)
    assert got.shape == (*lead, sketch.size)
    np.testing.assert_allclose(got, sketch.apply(np.einsum("...ti,...tj->...ij", u, v)), rtol=1e-10, atol=1e-12)


def test_the_hadamard_factor_and_estimate_know_how_many_entries_there_are_to_choose_from() -> None:
    assert HadamardSketch.draw((2,), 1).variance_factor() == 2
    assert HadamardSketch.draw((1,), 1).variance_factor() == 0
    rng = np.random.default_rng(0)
    for shape, entries in (((5, 6), 64), ((9,), 16)):
        sketch = HadamardSketch.draw(shape, 7)
        pairs = Pairs.of(rng.normal(size=(3, 7)), rng.normal(size=(2, 7)))
        wanted = between(sketch.variance_factor(), pairs, over_entries(pairs, entries))
        np.testing.assert_array_equal(sketch.variance_estimate(pairs), wanted)
        assert not np.array_equal(over_entries(pairs, entries), over_entries(pairs, 1))
    assert hadamard.hadamard(np.arange(2), np.arange(3)).dtype == np.int8


def test_of_sides_with_one_variance_those_with_the_most_numbers_are_taken() -> None:
    assert best_sides((2, 3), 3) == (1, 3)  # and not (2, 1)


def test_a_dense_matrix_of_floats_is_applied_to_objects() -> None:
    sketch = GaussianSketch.draw((3, 2), 4)
    x = np.arange(6.0).reshape(3, 2)
    np.testing.assert_allclose(sketch.apply(x.astype(object)).astype(float), sketch.apply(x), rtol=1e-6)


def test_long_vectors_are_summed_one_by_one_into_all_buckets() -> None:
    """Most of the buckets of this sketch are empty, the last among them."""
    d, m = LONG + 1, 5000
    sketch = CountSketch(np.arange(d), np.ones(d, int), m)
    x = np.random.default_rng(0).normal(size=(2, 3, d))
    got = sketch.apply(x)
    assert got.shape == (2, 3, m)
    np.testing.assert_array_equal(got[..., :d], x)
    assert not got[..., d:].any()
