"""Derivatives and comparisons for the tests of the reference backend, tests of these, and of the cases they run on.

`along` differentiates by a complex step, which has no subtraction and so no cancellation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from sdi.reference import LoopedTransformer, token_cross_entropy
from sdi.testing import LoopedCase, looped_cases
from sdi.testing.strategies import OPTIONS

H = 1e-30  # the complex step: its square vanishes


def loss_of(model: LoopedTransformer, batch: dict[str, np.ndarray]) -> np.ndarray:
    return token_cross_entropy(model, batch)


def nudged(model: LoopedTransformer, name: str, v: np.ndarray) -> LoopedTransformer:
    return replace(model, weights={**model.weights, name: model.weights[name] + v})


def along(model: LoopedTransformer, batch: dict[str, np.ndarray], name: str, v: np.ndarray) -> np.ndarray:
    """The derivative of each example's loss as one parameter moves along v."""
    return loss_of(nudged(model, name, 1j * H * v), batch).imag / H


def direction(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=shape)


def assert_inner_product(
    wanted: np.ndarray, grad: np.ndarray, v: np.ndarray, size: float, what: str, rtol: float = 1e-10
) -> None:
    """`wanted[i] == <grad[i], v>`, to rtol of |grad[i]| . |v|, because inner products cancel.

    A gradient that is zero by symmetry (a key's bias) comes out as rounding, of the `size` of the other gradients.
    """
    got = np.einsum("np,p->n", grad.reshape(len(grad), -1), v.ravel())
    bound = np.einsum("np,p->n", np.abs(grad.reshape(len(grad), -1)), np.abs(v.ravel()))
    tolerance = rtol * bound + 1e-3 * rtol * size * np.abs(v).sum()
    assert (np.abs(got - wanted) <= tolerance).all(), f"{what}: {got} is not {wanted}, tolerance {tolerance}"


def assert_close(x: np.ndarray, y: np.ndarray, what: str = "", rtol: float = 1e-12) -> None:
    """Equal to rounding, measured against the largest entry."""
    assert np.shape(x) == np.shape(y), f"{what}: shapes {np.shape(x)} and {np.shape(y)}"
    size = max(np.abs(x).max(initial=0), np.abs(y).max(initial=0))
    error = np.abs(np.asarray(x) - np.asarray(y)).max(initial=0)
    assert error <= rtol * size, f"{what}: differ by {error} of {size}"


def largest(arrays: dict[str, np.ndarray]) -> float:
    return max(float(np.abs(array).max()) for array in arrays.values())


def test_the_cases_reach_every_option() -> None:
    seen: set[tuple[str, Any]] = set()

    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @given(looped_cases())
    def collect(case: LoopedCase) -> None:
        seen.update((name, getattr(case.config, name)) for name in OPTIONS)
        seen.add(("ragged", len(set(case.tau.tolist())) > 1))
        seen.add(("early read-out", bool((case.readout < case.tau).any())))
        seen.add(("masked", not case.batch.get("mask", np.ones(1)).all()))

    collect()
    wanted = {(name, value) for name, values in OPTIONS.items() for value in values}
    assert wanted | {(name, True) for name in ("ragged", "early read-out", "masked")} <= seen


def test_the_helpers_reject_what_is_not_close() -> None:
    v = np.ones(2)
    assert_inner_product(np.array([3.0]), np.array([[1.0, 2.0]]), v, 1.0, "sum")
    with pytest.raises(AssertionError, match="sum"):
        assert_inner_product(np.array([3.0 + 1e-8]), np.array([[1.0, 2.0]]), v, 1.0, "sum")
    assert_close(np.ones(3), np.ones(3) + 1e-14)
    with pytest.raises(AssertionError, match="differ"):
        assert_close(np.ones(3), np.ones(3) + 1e-10)
    with pytest.raises(AssertionError, match="shapes"):
        assert_close(np.ones(3), np.ones((3, 1)))
    with pytest.raises(AssertionError, match="differ"):
        assert_close(np.ones(3), np.array([1.0, 2.0, 1.0]))
