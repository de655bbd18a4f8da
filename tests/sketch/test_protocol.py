"""What LinearSketch derives from five methods, and what tells two sketches apart."""

from __future__ import annotations

import hashlib
from typing import Any, ClassVar

import numpy as np
import pytest

from sdi.errors import SketchMismatch
from sdi.sketch import protocol
from sdi.sketch.protocol import LinearSketch, check_shape, identity_of, matrix_shape

MATRIX = np.random.default_rng(0).integers(-9, 9, size=(4, 6))


class Dense(LinearSketch):
    """A fixed matrix, on parameters of a given shape."""

    def __init__(self, shape: tuple[int, ...] = (2, 3), **tables: Any) -> None:
        self.of, self.held = shape, tables or {"matrix": MATRIX}

    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Dense:
        return cls(shape)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of

    @property
    def size(self) -> int:
        return 4

    def tables(self) -> dict[str, Any]:
        return self.held

    def apply(self, x: np.ndarray) -> np.ndarray:
        x = self._check(x)
        return x.reshape(*x.shape[: x.ndim - len(self.of)], 6) @ MATRIX.T

    def variance_factor(self) -> float:
        return 1.0


@pytest.mark.parametrize("chunk", [1, 100, 1 << 26])
@pytest.mark.parametrize("lead", [(), (3,), (2, 5), (0,), (1, 2, 3)])
@pytest.mark.parametrize("tokens", [0, 1, 4])
def test_apply_outer_is_the_sketch_of_the_sum_of_outer_products(monkeypatch, chunk, lead, tokens):
    monkeypatch.setattr(protocol, "CHUNK_BYTES", chunk)
    rng = np.random.default_rng(1)
    u, v = rng.integers(-9, 9, size=(*lead, tokens, 2)), rng.integers(-9, 9, size=(*lead, tokens, 3))
    wanted = np.einsum("...to,...ti->...oi", u, v).reshape(*lead, 6) @ MATRIX.T
    assert np.array_equal(Dense().apply_outer(u, v), wanted)
    flat = np.einsum("...to,...ti->...oi", u, v).reshape(*lead, 6)
    one = np.ones((*lead, 1, 1), dtype=int)
    assert np.array_equal(Dense((6,)).apply_outer(flat[..., None, :], one), wanted)


def test_as_many_gradients_are_formed_at_a_time_as_the_chunk_holds(monkeypatch):
    seen: list[int] = []
    true = Dense.apply
    monkeypatch.setattr(Dense, "apply", lambda self, x: seen.append(len(x)) or true(self, x))
    monkeypatch.setattr(protocol, "CHUNK_BYTES", 3 * 6 * 8 + 1)
    Dense().apply_outer(np.ones((7, 2, 2)), np.ones((7, 2, 3)))
    assert seen == [3, 3, 1]
    seen.clear()
    monkeypatch.setattr(protocol, "CHUNK_BYTES", 1)
    Dense().apply_outer(np.ones((2, 1, 2)), np.ones((2, 1, 3)))
    assert seen == [1, 1]


@pytest.mark.parametrize(("u", "v"), [
    ((2,), (3,)), ((5, 2), (4, 3)), ((5, 3), (5, 2)), ((5, 2), (5, 2)), ((1, 5, 2), (5, 3)), ((5, 2), (5, 4)),
])  # fmt: skip
def test_pairs_of_other_shapes_are_refused(u, v):
    with pytest.raises(SketchMismatch, match=r"Dense is for pairs of shapes \(\.\.\., T, 2\) and \(\.\.\., T, 3\)"):
        Dense().apply_outer(np.ones(u), np.ones(v))


@pytest.mark.parametrize("shape", [(), (3,), (3, 2), (4, 3, 2)])
def test_arrays_of_other_shapes_are_refused(shape):
    with pytest.raises(SketchMismatch, match=r"Dense is for arrays of shape \(\.\.\., 2, 3\), got"):
        Dense().apply(np.ones(shape))


def test_the_dense_matrix_and_the_bytes_are_those_of_the_tables():
    assert np.array_equal(Dense().dense(), MATRIX)
    assert Dense().dense().dtype == MATRIX.dtype
    assert Dense().nbytes == 4 * 6 * 8
    assert Dense(a=np.ones(3, dtype=np.int8), b=[1, 2]).nbytes == 3 + 16


def test_a_class_is_called_by_its_name_unless_it_says_a_kind():
    class Other(Dense):
        pass

    class Named(Dense):
        kind: ClassVar[str] = "mine"

    class BelowNamed(Named):
        pass

    assert [one.kind for one in (Dense, Other, Named, BelowNamed)] == ["Dense", "Other", "mine", "BelowNamed"]
    assert Named().to_json() == {"kind": "mine", "shape": [2, 3], "m": 4, "matrix": MATRIX.tolist()}
    assert protocol.kind_of(Named()) == "mine"
    assert protocol.kind_of(object()) == "object"  # type: ignore[arg-type]


def test_identity_is_a_digest_of_kind_shape_size_and_tables():
    """Vectors of integers by value alone; other tables with their kind and shape."""
    made = Dense(h=np.array([1, 2], dtype=np.int8), t=np.array([[0.5]]), z=np.array([1j]), b=np.array([[True]]))
    text = hashlib.sha256(b"Dense|(2, 3)|4")
    text.update(b"|h|" + np.array([1, 2], dtype="<i8").tobytes())
    text.update(b"|t|f(1, 1)|" + np.array([0.5], dtype="<f8").tobytes())
    text.update(b"|z|c(1,)|" + np.array([1j], dtype="<c16").tobytes())
    text.update(b"|b|b(1, 1)|" + np.array([1], dtype="<i8").tobytes())
    assert made.identity == identity_of(made) == text.hexdigest()[:12]


def test_identity_does_not_depend_on_the_parts_that_are_hashed_at_a_time(monkeypatch):
    made = Dense(h=np.arange(10), t=np.ones((3, 2)).T)
    whole = identity_of(made)
    monkeypatch.setattr(protocol, "HASHED", 3)
    assert identity_of(made) == whole
    assert identity_of(Dense(h=np.arange(9), t=np.ones((2, 3)))) != whole


def test_sketches_are_equal_exactly_when_their_identities_are():
    class Other(Dense):
        pass

    one, same, other = Dense(), Dense(matrix=MATRIX.astype(np.int16)), Dense(matrix=MATRIX + 1)
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert hash(one) != hash(other)
    assert one != one.identity
    assert one != Other()
    assert Dense((6,)) != one


@pytest.mark.parametrize(("shape", "matrix"), [((), (1, 1)), ((4,), (4, 1)), ((4, 5), (4, 5)), ((2, 3, 5), (2, 15))])
def test_a_parameter_is_taken_for_a_matrix_of_its_first_axis_and_the_rest(shape, matrix):
    assert matrix_shape(shape) == matrix


@pytest.mark.parametrize("shape", [(1,), [3], (1, 1), (np.int64(4), 2)])
def test_shapes_of_vectors_and_matrices_are_taken(shape):
    taken = check_shape(shape, "Dense")
    assert taken == tuple(shape)
    assert all(type(k) is int for k in taken)


@pytest.mark.parametrize("shape", [(), (1, 2, 3), 5, (0,), (3, 0), (3, -1), (2.0,), (True,), (2, False), "ab", None])
def test_other_shapes_are_refused(shape):
    with pytest.raises(ValueError, match=r"shape must be \(d,\) or \(d_out, d_in\) with sizes of at least 1 for Dense"):
        check_shape(shape, "Dense")
