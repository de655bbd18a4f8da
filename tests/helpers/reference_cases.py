"""Derivatives and comparisons for the tests of the reference backend, tests of these, and of the cases they run on.

`along` differentiates by a complex step, which has no subtraction and so no cancellation.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sdi.reference import LoopedTransformer, token_cross_entropy

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
