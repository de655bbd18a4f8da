"""LoopedTransformer: a LoopedConfig with weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from sdi.errors import NonFiniteError, nearest
from sdi.inputs.looped_config import LoopedConfig

from .batch import read_inputs
from .pullback import Array, Weights
from .unroll import unroll


@dataclass(frozen=True, eq=False)
class LoopedTransformer:
    """A looped transformer in float64.

    config: sizes and choices. weights: arrays by parameter name, as `config.shapes()` says.

    >>> model = LoopedTransformer.init(LoopedConfig(tau=2), seed=0)
    >>> model.forward({"tokens": [[1, 2, 3]]}).shape
    (1, 3, 16)
    """

    config: LoopedConfig
    weights: Weights

    def __post_init__(self) -> None:
        shapes = self.config.shapes()
        for name in self.weights:
            if name not in shapes:
                raise ValueError(f"weights hold {name!r}, which the config does not have{nearest(name, shapes)}")
        checked = {}
        for name, shape in shapes.items():
            if name not in self.weights:
                raise ValueError(f"weights must hold {name!r} {shape}, which is missing")
            weight = np.asarray(self.weights[name])
            if weight.shape != shape:
                raise ValueError(f"weight {name!r} must have shape {shape}, got {weight.shape}")
            if not np.isfinite(weight).all():
                at = tuple(int(k) for k in np.argwhere(~np.isfinite(weight))[0])
                raise NonFiniteError(f"weight {name!r} must be finite, got {weight[at]} at index {at}")
            # Complex weights are for complex-step differentiation.
            checked[name] = weight.astype(np.complex128 if weight.dtype.kind == "c" else np.float64)
        object.__setattr__(self, "weights", checked)

    @classmethod
    def init(cls, config: LoopedConfig, seed: int, scale: float = 0.02) -> LoopedTransformer:
        """A model of this config with fresh weights from this seed: normal with standard deviation `scale`, norms at
        weight 1 and bias 0, other biases 0.

        `inject.weight` is [I | I] plus the same noise, so that a concat model starts near the additive one.
        """
        rng = np.random.default_rng(seed)
        weights = {}
        for name, shape in config.shapes().items():
            if len(shape) == 1:
                weights[name] = np.full(shape, 1.0 if name.endswith(".weight") else 0.0)
            else:
                weights[name] = rng.normal(scale=scale, size=shape)
        if "inject.weight" in weights:
            weights["inject.weight"] += np.tile(np.eye(config.d), 2)
        return cls(config, weights)

    def forward(
        self, batch: Mapping[str, Any], weights_at: Callable[[int], Weights] | None = None
    ) -> Shaped[Array, "n L classes"]:
        """Logits (n, L, classes) at each example's read-out step. batch: as in `reference/batch.py`.

        `weights_at(t)`, if given, are the weights that step t uses in place of the shared ones. The derivative
        with respect to those of one step alone is the definition of that step's gradient phi.
        """
        return unroll(read_inputs(batch, self.config), self.weights, self.config, weights_at).logits
