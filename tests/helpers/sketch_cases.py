"""Sketches that ship and sketches of a user's own, for the tests of sketches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import sdi
import sdi.fast
import sdi.reference
from sdi import Loop, LoopedConfig, SketchMap
from sdi.sketch.load import SHIPPED
from sdi.sketch.shipped.kronecker import KroneckerSketch
from sdi.testing import make_batch, make_model

NAMES = (*SHIPPED, "sparse-1")


EXACT = tuple(name for name in NAMES if name not in ("tensor", "gaussian", "exact"))


MINE = """
import numpy as np
from sdi import LinearSketch
from sdi.sketch.hashing import bits, signs_of

class Mine(LinearSketch):
    '''Signed sums of m contiguous parts.'''
    def __init__(self, of, signs, m):
        self.of, self.signs, self.m = tuple(of), signs, m
    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return cls(shape, signs_of(bits(int(np.prod(shape)), seed, name)), m)
    @property
    def shape(self):
        return self.of
    @property
    def size(self):
        return self.m
    def tables(self):
        return {"signs": self.signs}
    def apply(self, x):
        x = x.reshape(*x.shape[: x.ndim - len(self.of)], -1) * self.signs
        cuts = np.linspace(0, x.shape[-1], self.m + 1).astype(int)
        return np.stack([x[..., a:b].sum(-1) for a, b in zip(cuts, cuts[1:])], axis=-1)
    def variance_factor(self):
        return 2.0
"""


CASE = LoopedConfig(vocab=5, classes=3, d=6, heads=2, tau=3, length=4, coda=1, loop_norm=True)


BODY = Loop(body=list(CASE.shapes()), step="inject", end="coda")  # the embedding and what is outside the loop included


@pytest.fixture
def mine(tmp_path: Path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path / 'mine.py'}:Mine"


class WithTwin(KroneckerSketch):
    """A user's class with a twin of its own, and twice the features: it must not take its parent's twin."""

    kind = "with_twin"

    def apply(self, x: np.ndarray) -> np.ndarray:
        return 2 * super().apply(x)

    def apply_outer(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return 2 * super().apply_outer(u, v)

    def to_torch(self, device: torch.device, dtype: torch.dtype) -> Any:
        dense = torch.tensor(self.dense(), device=device, dtype=dtype)

        class Twin:
            def apply(self, G: torch.Tensor) -> torch.Tensor:
                return G.flatten(1) @ dense.T

        return Twin()


class Bare:
    """The protocol and nothing else; keeps one number of each parameter, small ones included."""

    keeps_small = False

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape, self.size, self.nbytes = shape, 1, 0

    @classmethod
    def draw(cls, shape: tuple[int, ...], m: int, *, seed: int, name: str) -> Bare:
        return cls(shape)

    def tables(self) -> dict[str, np.ndarray]:
        return {}

    def apply(self, x: np.ndarray) -> np.ndarray:
        return x.reshape(*x.shape[: x.ndim - len(self.shape)], -1)[..., -1:]

    def apply_outer(self, u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return (u[..., -1:] * v[..., -1:]).sum(axis=-2)

    def variance_factor(self) -> float:
        return float("inf")


MIXED: dict[str, Any] = {"*.bias": "exact", "core.*": WithTwin, "head.*": "mask", "*": "hadamard"}


def both(sketch: SketchMap, steps: bool, **options: Any) -> tuple[sdi.Features, sdi.Features]:
    model, batch = make_model(CASE, 0), make_batch(CASE, 1)
    fast = sdi.fast.LoopedTransformer(CASE, model.weights).double()
    tensors = {name: torch.from_numpy(array) for name, array in batch.items()}
    ours = sdi.fast.featurize(
        fast, sdi.fast.token_cross_entropy, tensors, loop=BODY, sketch=sketch, steps=steps, memory="hooks", **options
    )
    loss = sdi.reference.token_cross_entropy
    return ours, sdi.reference.featurize(model, loss, batch, loop=BODY, sketch=sketch, steps=steps)


def mixed_and_others(spec: Any, m: int = 5) -> SketchMap:
    return SketchMap.draw(CASE.shapes(), m, 3, sketch=spec)
