"""CountSketch, TensorSketch and Keep as linear maps, and as data that does not change."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi.errors import SketchMismatch
from sdi.sketch.as_json import sketch_from_json
from sdi.sketch.protocol import check_m
from sdi.sketch.shipped.count_and_tensor import LONG, CountSketch, Keep, TensorSketch, scatter
from sdi.testing import seeds
from sdi.testing import sketches as drawn

exact = settings(deadline=None, derandomize=True, database=None, max_examples=50)
EPS = np.finfo(np.float64).eps

lead_shapes = st.lists(st.integers(0, 3), max_size=2).map(tuple)


def rng(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@st.composite
def count_sketches(draw):
    d, m = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    h = draw(st.lists(st.integers(0, m - 1), min_size=d, max_size=d))
    s = draw(st.lists(st.sampled_from((-1, 1)), min_size=d, max_size=d))
    return CountSketch(h=np.array(h), s=np.array(s), m=m)


tensor_sketches = st.tuples(st.integers(1, 6), st.integers(1, 6)).flatmap(lambda shape: drawn(["tensor"], shape=shape))
sketches = st.one_of(
    count_sketches(),
    drawn(["tensor", "exact"]),
    st.lists(st.integers(1, 4), max_size=3).map(lambda shape: Keep(tuple(shape))),
)


def by_double_loop(sketch: TensorSketch, X: np.ndarray) -> np.ndarray:
    """The definition, entry by entry, from the four tables alone."""
    y = np.zeros(sketch.m, dtype=X.dtype)
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            bucket = (int(sketch.rows.h[i]) + int(sketch.cols.h[j])) % sketch.m
            y[bucket] += int(sketch.rows.s[i]) * int(sketch.cols.s[j]) * X[i, j]
    return y


@exact
@given(sketches, lead_shapes, seeds)
def test_apply_is_the_dense_matrix_times_the_flattened_parameter(sketch, lead, seed):
    x = rng(seed).integers(-99, 100, size=(*lead, *sketch.shape))
    dense = sketch.dense()
    size = int(np.prod(sketch.shape))
    assert dense.shape == (sketch.size, size)
    got = sketch.apply(x)
    assert got.dtype == np.int64
    assert np.array_equal(got, x.reshape(*lead, size) @ dense.T)


@exact
@given(sketches)
def test_every_entry_of_a_parameter_goes_to_one_bucket_with_a_sign(sketch):
    assert (np.abs(sketch.dense()).sum(axis=0) == 1).all()


@exact
@given(sketches, seeds)
def test_a_sketch_is_linear(sketch, seed):
    x, y = rng(seed).integers(-99, 100, size=(2, *sketch.shape))
    assert np.array_equal(sketch.apply(3 * x - 5 * y), 3 * sketch.apply(x) - 5 * sketch.apply(y))


@exact
@given(tensor_sketches, seeds)
def test_tensor_sketch_is_the_double_loop_over_its_tables(sketch, seed):
    X = rng(seed).integers(-99, 100, size=sketch.shape)
    assert np.array_equal(sketch.apply(X), by_double_loop(sketch, X))
    H, S = sketch.H, sketch.S
    by_H_and_S = [(S * X)[k == H].sum() for k in range(sketch.m)]
    assert np.array_equal(sketch.apply(X), by_H_and_S)


@exact
@given(tensor_sketches, lead_shapes, seeds)
def test_apply_outer_is_apply_of_the_outer_product(sketch, lead, seed):
    tokens = seed % 4
    u = rng(seed).standard_normal((*lead, tokens, sketch.shape[0]))
    v = rng(seed + 1).standard_normal((*lead, tokens, sketch.shape[1]))
    got = sketch.apply_outer(u, v)
    # Every output of the FFT carries a rounding of the size of |CS u| |CS v|.
    scale = (np.abs(u).sum(-1) * np.abs(v).sum(-1)).sum(-1)
    wanted = sketch.apply(np.einsum("...ti,...tj->...ij", u, v))
    assert got.shape == (*lead, sketch.m)
    assert (np.abs(got - wanted) <= 32 * EPS * scale[..., None]).all()


@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 8, 9, 16, 17])
def test_apply_outer_holds_for_even_and_odd_m(m):
    sketch = TensorSketch.draw((11, 13), m, name="w")
    u, v = rng(m).integers(-9, 10, size=11), rng(m + 1).integers(-9, 10, size=13)
    assert np.array_equal(np.rint(sketch.apply_outer(u[None], v[None])), by_double_loop(sketch, np.outer(u, v)))


@exact
@given(sketches, seeds)
def test_fractions_go_in_and_fractions_come_out(sketch, seed):
    integers = rng(seed).integers(-99, 100, size=sketch.shape)
    x = np.vectorize(lambda k: Fraction(int(k), 7), otypes=[object])(integers)
    got = sketch.apply(x)
    assert got.dtype == object
    assert not any(isinstance(value, float) for value in got.ravel())
    assert [7 * value for value in got.ravel()] == sketch.apply(integers).ravel().tolist()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int64, np.complex128])
def test_apply_keeps_the_dtype(dtype):
    for sketch in (CountSketch.draw((6,), 4, name="w"), TensorSketch.draw((2, 3), 4, name="w"), Keep((2, 3))):
        assert sketch.apply(np.ones(sketch.shape, dtype=dtype)).dtype == dtype


def test_narrow_integers_do_not_wrap_around():
    for sketch in (CountSketch.draw((400,), 1, name="w"), TensorSketch.draw((20, 20), 1, name="w")):
        x = np.full(sketch.shape, 100, dtype=np.int8)
        x *= sketch.apply(np.eye(400, dtype=np.int8).reshape(400, *sketch.shape)).reshape(sketch.shape).astype(np.int8)
        assert sketch.apply(x).tolist() == [40_000]


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_])
def test_values_without_a_sign_do_not_wrap_around(dtype):
    sketch = CountSketch(h=np.array([0, 0, 1]), s=np.array([-1, -1, 1]), m=2)
    assert sketch.apply(np.ones(3, dtype=dtype)).tolist() == [-2, 1]


@pytest.mark.parametrize("d", [LONG, LONG + 1])
@pytest.mark.parametrize("lead", [(), (0,), (3,), (2, 3)])
def test_buckets_are_summed_entry_by_entry_however_long_and_many_the_arrays_are(d, lead):
    rng = np.random.default_rng(d)
    x, h, s = rng.standard_normal((*lead, d)), rng.integers(7, size=d), rng.choice([-1, 1], size=d)
    wanted = np.zeros((*lead, 7))
    for i in range(d):
        wanted[..., h[i]] += s[i] * x[..., i]
    found = scatter(x, h, s, 7)
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, wanted, strict=True)


def test_a_batch_without_examples_gives_a_sketch_without_rows():
    for sketch in (CountSketch.draw((6,), 4, name="w"), TensorSketch.draw((2, 3), 4, name="w"), Keep((2, 3))):
        assert sketch.apply(np.zeros((0, *sketch.shape))).shape == (0, sketch.size)
        assert sketch.apply(np.zeros((2, 0, *sketch.shape))).shape == (2, 0, sketch.size)


def test_apply_does_not_change_its_argument():
    for sketch in (CountSketch.draw((6,), 4, name="w"), TensorSketch.draw((2, 3), 4, name="w")):
        x = np.arange(6.0).reshape(sketch.shape)
        sketch.apply(x)
        assert np.array_equal(x.ravel(), np.arange(6.0))


@exact
@given(sketches)
def test_json_gives_the_same_sketch_back(sketch):
    back = sketch_from_json(json.loads(json.dumps(sketch.to_json())))
    assert type(back) is type(sketch)
    assert back == sketch
    assert hash(back) == hash(sketch)
    assert back.shape == sketch.shape
    assert back.size == sketch.size
    assert np.array_equal(back.dense(), sketch.dense())


def test_a_numpy_integer_as_m_or_shape_is_an_integer():
    one = CountSketch(h=np.array([0, 1]), s=np.array([1, 1]), m=np.int64(2))
    assert json.loads(json.dumps(one.to_json())) == one.to_json()
    drawn = [CountSketch.draw((5,), m, name="w", family="polynomial") for m in (np.int64(4), 4)]
    assert drawn[0] == drawn[1]
    assert Keep((np.int64(3), np.int32(2))) == Keep((3, 2)) == Keep([3, 2])


@exact
@given(count_sketches(), st.data())
def test_changing_one_bucket_or_one_sign_changes_the_identity(sketch, data):
    i = data.draw(st.integers(0, sketch.h.size - 1))
    h, s = sketch.h.copy(), sketch.s.copy()
    assert CountSketch(h, s, sketch.m).identity == sketch.identity
    s[i] = -s[i]
    assert CountSketch(sketch.h, s, sketch.m) != sketch
    if sketch.m > 1:
        h[i] = (h[i] + 1) % sketch.m
        assert CountSketch(h, sketch.s, sketch.m) != sketch
    assert CountSketch(sketch.h, sketch.s, sketch.m + 1) != sketch


def test_every_table_of_a_tensor_sketch_is_in_its_identity():
    sketch = TensorSketch.draw((3, 4), 5, name="w")
    seen = {sketch.identity}
    for side in ("rows", "cols"):
        for i in range(getattr(sketch, side).h.size):
            for table in ("h", "s"):
                tables = {"h": getattr(sketch, side).h.copy(), "s": getattr(sketch, side).s.copy()}
                tables[table][i] = (tables["h"][i] + 1) % 5 if table == "h" else -tables["s"][i]
                changed = CountSketch(**tables, m=5)
                both = {"rows": sketch.rows, "cols": sketch.cols, side: changed}
                seen.add(TensorSketch(**both).identity)
    assert len(seen) == 1 + 2 * 3 + 2 * 4


def test_sketches_of_different_kind_or_shape_differ():
    ones = CountSketch(h=np.arange(6), s=np.ones(6, dtype=int), m=6)
    assert np.array_equal(ones.dense(), Keep((6,)).dense())
    assert len({ones, Keep((6,)), Keep((2, 3)), Keep((3, 2)), TensorSketch.draw((2, 3), 6, name="w")}) == 5
    assert ones != "not a sketch"


def test_the_tables_are_read_only():
    sketch = TensorSketch.draw((3, 4), 5, name="w")
    for table in sketch.tables().values():
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0
    for change in (lambda: setattr(sketch.rows, "m", 9), lambda: setattr(sketch, "rows", sketch.cols)):
        with pytest.raises(AttributeError):
            change()


def test_a_later_change_of_the_callers_arrays_does_not_change_the_sketch():
    h, s = np.array([0, 1, 2]), np.array([1, -1, 1])
    sketch = CountSketch(h=h, s=s, m=3)
    identity = sketch.identity
    h[:], s[:] = 0, 1
    assert sketch.identity == identity
    assert sketch.apply(np.array([5, 7, 9])).tolist() == [5, -7, 9]
    assert h.flags.writeable


@pytest.mark.parametrize("family", ["table", "polynomial"])
def test_a_drawn_sketch_depends_on_its_words_alone(family):
    one = TensorSketch.draw((9, 7), 8, seed=0, name="w", family=family)
    TensorSketch.draw((9, 7), 8, seed=0, name="another", family=family)
    assert one == TensorSketch.draw((9, 7), 8, seed=0, name="w", family=family)
    assert one != TensorSketch.draw((9, 7), 8, seed=0, name="v", family=family)
    assert one != TensorSketch.draw((9, 7), 8, seed=1, name="w", family=family)


@pytest.mark.parametrize("family", ["table", "polynomial"])
def test_rows_and_columns_buckets_and_signs_are_drawn_apart(family):
    sketch = TensorSketch.draw((64, 64), 2, name="w", family=family)
    tables = [sketch.rows.h, sketch.cols.h, (1 - sketch.rows.s) // 2, (1 - sketch.cols.s) // 2]
    for i, one in enumerate(tables):
        for other in tables[i + 1 :]:
            assert not np.array_equal(one, other)
            assert not np.array_equal(one, 1 - other)


def test_rows_and_columns_must_have_one_m():
    with pytest.raises(SketchMismatch, match="rows and cols must have one m, got 4 and 8"):
        TensorSketch(rows=CountSketch.draw((3,), 4, name="w"), cols=CountSketch.draw((3,), 8, name="w"))


@pytest.mark.parametrize(
    ("h", "s", "m", "message"),
    [
        ([0, 2], [1, 1], 2, r"h must hold integers from 0 to m - 1 = 1, got int64 in \[0, 2\]"),
        ([-1, 0], [1, 1], 2, r"h must hold integers .* got int64 in \[-1, 0\]"),
        ([0.0, 1.0], [1, 1], 2, r"h must hold integers .* got float64"),
        ([0, 1], [1, 0], 2, r"s must hold only -1 and \+1, got \[0 1\]"),
        ([0, 1], [1, float("nan")], 2, r"s must hold only -1 and \+1"),
        ([0, 1], [1], 2, r"h and s must be vectors of one length of at least 1, got shapes \(2,\) and \(1,\)"),
        ([[0]], [[1]], 2, r"h and s must be vectors .* got shapes \(1, 1\) and \(1, 1\)"),
        ([], [], 2, r"h and s must be vectors .* got shapes \(0,\) and \(0,\)"),
    ],
)
def test_tables_that_are_no_sketch_are_refused(h, s, m, message):
    with pytest.raises(ValueError, match=message):
        CountSketch(h=np.array(h), s=np.array(s), m=m)


@pytest.mark.parametrize(
    ("sketch", "shape", "message"),
    [
        (CountSketch.draw((3,), 2, name="w"), (4,), r"CountSketch is for arrays of shape \(..., 3\), got \(4,\)"),
        (CountSketch.draw((3,), 2, name="w"), (), r"CountSketch is for arrays of shape \(..., 3\), got \(\)"),
        (TensorSketch.draw((3, 4), 2, name="w"), (4, 3), r"TensorSketch is for .* \(..., 3, 4\), got \(4, 3\)"),
        (TensorSketch.draw((3, 4), 2, name="w"), (4,), r"TensorSketch is for .* \(..., 3, 4\), got \(4,\)"),
        (Keep((3, 4)), (12,), r"Keep is for arrays of shape \(..., 3, 4\), got \(12,\)"),
    ],
)
def test_an_array_of_another_shape_is_refused(sketch, shape, message):
    with pytest.raises(SketchMismatch, match=message):
        sketch.apply(np.zeros(shape))


def test_an_unknown_kind_of_sketch_is_refused():
    with pytest.raises(ValueError, match=r"kind must be one of .*'count', 'tensor', .* got 'nope' \(m=3\)"):
        sketch_from_json({"kind": "nope", "m": 3})


@pytest.mark.parametrize("m", [1, 7, np.int32(3), np.uint8(9)])
def test_every_integer_from_one_on_is_an_m(m):
    check_m(m)
