"""LoopedCase: a small looped transformer with weights that are nothing special, and a batch, for both backends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sdi.backends import room
from sdi.inputs.looped_config import LoopedConfig
from sdi.loop import Loop

Array = np.ndarray
STEP_LIMIT = 4


@dataclass(frozen=True, eq=False)
class LoopedCase:
    """A model of the reference backend with a batch for it; `torch` gives both to the fast backend.

    >>> LoopedCase.make(LoopedConfig(tau=2), n=5).n
    5
    """

    model: Any  # of the reference backend
    batch: dict[str, Array]  # as `make_batch` makes them
    seed: int | None = None  # of the weights, if `make_model` made them

    @classmethod
    def make(cls, config: LoopedConfig, seed: int = 0, n: int = 3, length: int = 4) -> LoopedCase:
        """A case with random weights. config: of the model. seed: of both. n, length: examples, and tokens of each."""
        return cls(make_model(config, seed), make_batch(config, seed, n, length), seed)

    @property
    def config(self) -> LoopedConfig:
        """The sizes and choices of the model."""
        config: LoopedConfig = self.model.config
        return config

    @property
    def n(self) -> int:
        """How many examples the batch holds."""
        return len(self.batch["tokens"])

    @property
    def tau(self) -> Array:
        """The steps of each example, (n,)."""
        return self.batch.get("tau", np.full(self.n, self.config.tau))

    @property
    def readout(self) -> Array:
        """The step after which each example is read out, (n,)."""
        return self.batch.get("readout", self.tau)

    @property
    def loop(self) -> Loop:
        """The whole loop as the body."""
        return self.config.loop()

    @property
    def body(self) -> dict[str, tuple[int, ...]]:
        """The shape of every parameter in the loop."""
        shapes = self.config.shapes()
        return {name: shapes[name] for name in self.loop.select(shapes)}

    def example(self, i: int) -> dict[str, Array]:
        """A batch of example i alone."""
        return {name: array[i : i + 1] for name, array in self.batch.items()}

    def torch(self, dtype: str = "float64", device: str = "cpu") -> tuple[Any, dict[str, Any]]:
        """The model and the batch of the fast backend, with the same weights. dtype, device: of its tensors."""
        import torch

        model = room("fast").LoopedTransformer(self.config, self.model.weights).to(device, getattr(torch, dtype))
        return model, {name: torch.from_numpy(array).to(device) for name, array in self.batch.items()}

    def _repr_pretty_(self, p: Any, cycle: bool) -> None:  # hypothesis would print every field, with all weights
        p.text(repr(self))

    def __repr__(self) -> str:
        changed = {k: v for k, v in self.config.to_dict().items() if v != getattr(LoopedConfig(), k)}
        options = ", ".join(f"{k}={v!r}" for k, v in changed.items())
        batch = {name: array.tolist() for name, array in self.batch.items()}
        return f"LoopedCase(make_model(LoopedConfig({options}), seed={self.seed}), batch={batch})"


def make_model(config: LoopedConfig, seed: int) -> Any:
    """A reference model of this config with random weights from this seed.

    They make every layer's output of order one: none nearly linear, and no softmax or softcap saturated.
    config: of the model. seed: of its weights. Returns a `sdi.reference.LoopedTransformer`.

    >>> make_model(LoopedConfig(d=8), seed=0).weights["head.weight"].shape
    (16, 8)
    """
    rng = np.random.default_rng(seed)
    weights = {}
    for name, shape in config.shapes().items():
        if len(shape) == 1:
            weights[name] = rng.normal(size=shape) * 0.3 + (1.0 if name.endswith(".weight") else 0.0)
        else:
            weights[name] = rng.normal(size=shape) * 0.7 / np.sqrt(shape[1])
    if config.read_in == "embedding":
        weights["read_in.weight"] *= 2
    return room("reference").LoopedTransformer(config, weights)


def make_batch(config: LoopedConfig, seed: int, n: int = 3, length: int = 4) -> dict[str, Array]:
    """A random batch for a config, with every key: ragged steps, read-outs before the last step, masked tokens.

    seed: of the random numbers. n, length: how many examples, of how many tokens.
    config: of the model. Returns arrays by name: "tokens", "targets" and "mask" (n, length), "tau" and "readout" (n,).

    >>> make_batch(LoopedConfig(), seed=0)["tokens"].shape
    (3, 4)
    """
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
