"""Small looped transformers and batches for the tests of the reference backend, and tests of these helpers.

`cases()` draws a config with any of its options, weights that are nothing special anywhere (norms included), and
a ragged batch. `along` differentiates by a complex step, which has no subtraction and so no cancellation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sdi import LoopedConfig
from sdi.reference import LoopedTransformer, token_cross_entropy

H = 1e-30  # the complex step: its square vanishes

STEP_LIMIT = 4
OPTIONS: dict[str, tuple[Any, ...]] = {
    "prelude": (0, 1),
    "core": (1, 2),
    "coda": (0, 1),
    "read_in": ("embedding", "onehot"),
    "state": ("embedding", "zero"),
    "injection": ("none", "add", "concat"),
    "norm": ("layer", "rms"),
    "activation": ("gelu", "gelu_tanh", "relu2"),
    "positions": (False, True),
    "rotary": (False, True),
    "causal": (False, True),
    "bias": (False, True),
    "head_bias": (False, True),
    "fused_qkv": (False, True),
    "qk_norm": (False, True),
    "norm_in": (False, True),
    "loop_norm": (False, True),
    "norm_out": (False, True),
    "softcap": (None, 1.5),
    "bptt": (None, 1, 2),
}


@dataclass(frozen=True)
class Case:
    model: LoopedTransformer
    batch: dict[str, np.ndarray]

    @property
    def config(self) -> LoopedConfig:
        return self.model.config

    @property
    def n(self) -> int:
        return len(self.batch["tokens"])

    @property
    def tau(self) -> np.ndarray:
        return self.batch.get("tau", np.full(self.n, self.config.tau))

    @property
    def readout(self) -> np.ndarray:
        return self.batch.get("readout", self.tau)

    def example(self, i: int) -> dict[str, np.ndarray]:
        return {name: array[i : i + 1] for name, array in self.batch.items()}


def make_model(config: LoopedConfig, seed: int) -> LoopedTransformer:
    """Weights that make every layer's output of order one: none nearly linear, and no softmax or softcap saturated."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in config.shapes().items():
        if len(shape) == 1:
            weights[name] = rng.normal(size=shape) * 0.3 + (1.0 if name.endswith(".weight") else 0.0)
        else:
            weights[name] = rng.normal(size=shape) * 0.7 / np.sqrt(shape[1])
    if config.read_in == "embedding":
        weights["read_in.weight"] *= 2
    return LoopedTransformer(config, weights)


def make_batch(config: LoopedConfig, seed: int, n: int = 3, length: int = 4) -> dict[str, np.ndarray]:
    """A batch with every key: ragged steps, read-outs before the last step, masked tokens."""
    rng = np.random.default_rng(seed)
    mask = rng.random((n, length)) < 0.6
    mask[np.arange(n), rng.integers(length, size=n)] = True
    tau = rng.integers(1, STEP_LIMIT + 1, size=n)
    return {
        "tokens": rng.integers(config.vocab, size=(n, length)),
        "targets": rng.integers(config.classes, size=(n, length)),
        "mask": mask,
        "tau": tau,
        "readout": rng.integers(1, tau + 1),
    }


@st.composite
def cases(draw: st.DrawFn, **fixed: Any) -> Case:
    options = {name: draw(st.sampled_from(values)) for name, values in OPTIONS.items() if name not in fixed} | fixed
    d, heads = draw(st.sampled_from([(4, 1), (4, 2), (6, 2), (6, 3), (8, 2)]))
    if (d // heads) % 2:
        options["rotary"] = False
    vocab, classes, tau = draw(st.integers(1, 4)), draw(st.integers(2, 4)), draw(st.integers(1, STEP_LIMIT))
    config = LoopedConfig(vocab=vocab, classes=classes, d=d, heads=heads, tau=tau, length=5, **options)
    seed = draw(st.integers(0, 2**32 - 1))
    batch = make_batch(config, seed, n=draw(st.integers(1, 3)), length=draw(st.integers(1, 5)))
    left_out = draw(st.sampled_from([(), ("mask",), ("readout",), ("tau", "readout")]))
    return Case(make_model(config, seed), {name: array for name, array in batch.items() if name not in left_out})


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
    @given(cases())
    def collect(case: Case) -> None:
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
