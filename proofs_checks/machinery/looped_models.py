"""Small looped transformers with nothing special about them, and derivatives that know nothing of backpropagation.

`along` differentiates by a complex step: the loss at w + ih v has the derivative along v in its imaginary part, to
rounding, since nothing is subtracted. Moving only the copy of w that step t uses, it is phi_t . v by definition:
the state that enters step t does not move, and what leaves it moves the loss through all later steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig

Array = np.ndarray
Batch = Mapping[str, Array]
H = 1e-30  # the complex step: its square vanishes
SIZES: dict[str, Any] = {"vocab": 5, "classes": 4, "d": 4, "heads": 2, "length": 4}
CONFIGS = {
    "added input, LayerNorm": LoopedConfig(**SIZES, tau=4, coda=1, loop_norm=True),
    "concatenated input, RMSNorm": LoopedConfig(
        **SIZES, tau=3, core=2, prelude=1, injection="concat", norm="rms", activation="relu2", rotary=True,
        qk_norm=True, bias=False, norm_in=True, softcap=1.5,
    ),
    "no injection, bidirectional": LoopedConfig(**SIZES, tau=4, injection="none", causal=False, positions=True),
}  # fmt: skip
MORE_CONFIGS = {
    "parity": LoopedConfig.parity(vocab=5, classes=4, d=6, heads=3, tau=5, length=4),
    "looped GPT": LoopedConfig.looped_gpt(vocab=5, classes=4, d=8, heads=2, tau=4, core=2),
    "Sudoku": LoopedConfig.sudoku(vocab=5, classes=4, d=8, tau=5, length=4),
}


@dataclass(frozen=True)
class Case:
    """A model of the reference backend and a batch whose tau, read-out and mask differ from example to example."""

    name: str
    model: Any
    batch: Batch

    @property
    def readout(self) -> Array:
        return self.batch["readout"]

    @property
    def config(self) -> LoopedConfig:
        return self.model.config

    def changed(self, **options: Any) -> Case:
        """The same weights and batch under another config."""
        return replace(self, model=replace(self.model, config=replace(self.config, **options)))


def cases(thorough: bool) -> Iterator[Case]:
    for seed, (name, config) in enumerate({**CONFIGS, **(MORE_CONFIGS if thorough else {})}.items()):
        yield Case(name, make_model(config, seed), make_batch(config, seed))


def make_model(config: LoopedConfig, seed: int) -> Any:
    """Weights that keep every layer's output of order one: none nearly linear, none saturated, no norm at 1 and 0."""
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in config.shapes().items():
        spread = 0.3 if len(shape) == 1 else 0.7 / np.sqrt(shape[1])
        centre = 1.0 if len(shape) == 1 and name.endswith(".weight") else 0.0
        weights[name] = centre + spread * rng.normal(size=shape)
    return room("reference").LoopedTransformer(config, weights)


def make_batch(config: LoopedConfig, seed: int, n: int = 3, length: int = 3) -> dict[str, Array]:
    """Examples with tau, tau - 1, ... steps, of which the last one or none is unused, and one token masked."""
    rng = np.random.default_rng(seed)
    tau = np.maximum(config.tau - np.arange(n), 1)
    mask = np.ones((n, length), dtype=bool)
    mask[0, 0] = False
    return {
        "tokens": rng.integers(config.vocab, size=(n, length)),
        "targets": rng.integers(config.classes, size=(n, length)),
        "mask": mask,
        "tau": tau,
        "readout": np.maximum(tau - (np.arange(n) == 1), 1),
    }


def step_gradients(case: Case) -> dict[str, Float[Array, "n tau *shape"]]:
    """phi of every parameter of the loop, by the reference backend."""
    reference = room("reference")
    return reference.step_gradients(case.model, reference.token_cross_entropy, case.batch)


def along(case: Case, name: str, v: Array, steps: Collection[int] | None = None) -> Float[Array, "n"]:
    """The derivative of each loss as the copies of one parameter that these steps use (all, if None) move along v."""
    weights = case.model.weights
    moved = {**weights, name: weights[name] + 1j * H * v}
    logits = case.model.forward(case.batch, lambda t: moved if steps is None or t in steps else weights)
    return room("reference").token_cross_entropy.of_logits(logits, case.batch).imag / H


def largest(arrays: Mapping[str, Array]) -> float:
    return max(float(np.abs(array).max()) for array in arrays.values())


def matches(grad: Float[Array, "n *shape"], v: Array, wanted: Float[Array, "n"], size: float) -> bool:
    """grad[i] . v == wanted[i] to 1e-11 of |grad[i]| . |v|, because inner products cancel; or to rounding of `size`,
    that of the other gradients: some are zero by symmetry (the bias of attention's keys)."""
    flat = grad.reshape(len(grad), -1)
    tolerance = 1e-11 * np.abs(flat) @ np.abs(v.ravel()) + 1e-14 * size * np.abs(v).sum()
    return bool((np.abs(flat @ v.ravel() - wanted) <= tolerance).all())
