"""What every shipped sketch does alike: what it is drawn from, what it refuses, and that it cannot be changed."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from sdi.sketch.shipped import dense_projection
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.shipped.gaussian import GaussianSketch
from sdi.sketch.shipped.hadamard import HadamardSketch
from sdi.sketch.shipped.kronecker import KroneckerSketch
from sdi.sketch.shipped.mask import MaskSketch
from sdi.sketch.shipped.rademacher import RademacherSketch
from sdi.sketch.shipped.sparse import SparseSketch

ALL: list[Any] = [
    CountSketch, TensorSketch, GaussianSketch, HadamardSketch, KroneckerSketch, MaskSketch, RademacherSketch,
    SparseSketch,
]  # fmt: skip


def shape_of(cls: Any) -> tuple[int, ...]:
    return (48,) if cls is CountSketch else (8, 6)


@pytest.mark.parametrize("cls", ALL)
def test_seed_0_and_no_name_are_what_is_drawn_from_where_nothing_is_said(cls):
    shape = shape_of(cls)
    assert cls.draw(shape, 7) == cls.draw(shape, 7, seed=0, name="")
    assert cls.draw(shape, 7) != cls.draw(shape, 7, seed=1)
    assert cls.draw(shape, 7) != cls.draw(shape, 7, name="w")


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("shape", [(), (2, 2, 2), (0,), (3, 0), "ab"])
def test_a_shape_that_is_neither_a_vectors_nor_a_matrixs_is_refused_by_name(cls, shape):
    with pytest.raises(ValueError, match=rf"with sizes of at least 1 for {cls.__name__}, got"):
        cls.draw(shape, 4)


@pytest.mark.parametrize("cls", [CountSketch, TensorSketch, MaskSketch])
def test_so_it_is_where_all_are_listed(cls):
    with pytest.raises(ValueError, match=rf"with sizes of at least 1 for {cls.__name__}, got"):
        next(iter(cls.enumerate_all((0,), 4)))


@pytest.mark.parametrize("cls", ALL)
@pytest.mark.parametrize("m", [0, -1])
def test_a_width_below_one_is_refused(cls, m):
    with pytest.raises(ValueError, match=f"m must be at least 1, got {m}"):
        cls.draw(shape_of(cls), m)


@pytest.mark.parametrize("cls", ALL)
def test_tables_cannot_be_changed(cls):
    tables = cls.draw(shape_of(cls), 7).tables()
    assert tables
    for table in tables.values():
        with pytest.raises(ValueError, match="read-only"):
            np.asarray(table)[...] = 0


@pytest.mark.parametrize("cls", [*ALL, Keep])
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
def test_what_is_drawn_is_linear_with_the_matrix_it_shows(cls, lead):
    sketch = cls.draw(shape_of(cls), 7)
    x = np.random.default_rng(0).normal(size=(*lead, *shape_of(cls)))
    assert np.allclose(sketch.apply(x), x.reshape(*lead, 48) @ sketch.dense().T, rtol=0, atol=1e-12)
    assert sketch.apply(x).shape == (*lead, sketch.size)
    assert sketch.size <= (48 if cls is Keep else 7)


def test_a_count_sketch_refuses_tables_that_are_none():
    h, s = np.array([[0, 1]]), np.array([[1, -1]])
    for bad_h, bad_s, message in (
        (h, s, "h and s must be vectors of one length"),
        (h[0], s[0, :1], "h and s must be vectors of one length"),
        (h[0, :0], s[0, :0], "h and s must be vectors of one length"),
        (np.array([0, 2]), s[0], "h must hold integers from 0 to m - 1 = 1"),
        (np.array([0, -1]), s[0], "h must hold integers from 0 to m - 1 = 1"),
        (np.array([0.0, 1.0]), s[0], "h must hold integers from 0 to m - 1 = 1"),
        (h[0], np.array([1, 0]), "s must hold only -1 and"),
    ):
        with pytest.raises(ValueError, match=message):
            CountSketch(h=bad_h, s=bad_s, m=2)


OF_TABLES: list[Any] = [
    GaussianSketch, HadamardSketch, KroneckerSketch, MaskSketch, RademacherSketch, SparseSketch
]  # fmt: skip


@pytest.mark.parametrize("cls", OF_TABLES)
def test_a_sketch_is_made_again_from_its_tables(cls):
    made = cls.draw((8, 6), 7)
    again = cls.of_tables([8, 6], made.size, made.tables())
    assert again == made
    assert again.shape == (8, 6)
    assert type(again.shape) is tuple
    writeable = {name: np.array(table) for name, table in made.tables().items()}
    again = cls.of_tables((8, 6), made.size, writeable)
    for name, table in writeable.items():
        table[...] = 0  # not its own
        assert np.array_equal(again.tables()[name], made.tables()[name])


@pytest.mark.parametrize("cls", OF_TABLES)
@pytest.mark.parametrize("shape", [(8, 0), (2, 2, 12)])
def test_tables_of_another_shape_are_refused(cls, shape):
    made = cls.draw((8, 6), 7)
    with pytest.raises(ValueError, match=rf"with sizes of at least 1 for {cls.__name__}, got"):
        cls.of_tables(shape, made.size, made.tables())


@pytest.mark.parametrize("table", [np.ones(48), np.ones((7, 47)), np.ones((7, 48), dtype=int), np.ones((1, 7, 48))])
def test_a_table_that_is_no_matrix_of_floats_is_refused(table):
    with pytest.raises(ValueError, match=r"table must hold floats, \(m, 48\), got"):
        GaussianSketch(table, (8, 6))


@pytest.mark.parametrize("signs", [np.ones(48), np.ones((7, 47)), np.ones((1, 7, 48))])
def test_signs_that_are_no_matrix_are_refused(signs):
    with pytest.raises(ValueError, match=r"signs must have shape \(m, 48\), got"):
        RademacherSketch(signs, (8, 6))


def test_normal_numbers_are_kept_in_single_precision():
    assert GaussianSketch.draw((8, 6), 7).tables()["table"].dtype == np.float32


def test_a_dense_product_is_taken_in_the_dtype_of_what_is_multiplied():
    sketch = RademacherSketch.draw((300,), 5)
    x = np.full(300, 100)
    wanted = sketch.signs.astype(int) @ x
    for dtype, kept in ((np.int8, np.int64), (np.uint8, np.int64), (np.int64, np.int64), (np.float32, np.float32),
                        (np.complex64, np.complex64)):  # fmt: skip
        found = sketch.integers(x.astype(dtype))
        assert found.dtype == kept
        assert np.array_equal(found, wanted)
    exact = sketch.integers(np.array([Fraction(1, 3)] * 300, dtype=object))
    assert exact.tolist() == [Fraction(int(row.sum()), 3) for row in sketch.signs.astype(int)]


@pytest.mark.parametrize("cls", [GaussianSketch, RademacherSketch])
def test_a_dense_matrix_may_be_as_large_as_the_limit_and_no_larger(monkeypatch, cls):
    monkeypatch.setattr(dense_projection, "MOST_BYTES", 8 * 7 * 48)
    assert cls.draw((8, 6), 7).size == 7
    with pytest.raises(
        ValueError, match=rf"sketch '{cls.kind}' of 'w' .* 3,072 bytes, over 2,688; use m of at most 7 th"
    ):
        cls.draw((8, 6), 8, name="w")
    with pytest.raises(ValueError, match=r"over 2,688; use another sketch for it"):
        cls.draw((337,), 1)
