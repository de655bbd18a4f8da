"""A sketch as a newcomer would write it."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from sdi import LinearSketch
from sdi.sketch import bits
from sdi.sketch.shipped.count_and_tensor import scatter


@dataclass(frozen=True, eq=False)
class Good(LinearSketch):
    """A CountSketch of the flattened parameter."""

    of: tuple[int, ...]
    m: int
    h: np.ndarray
    s: np.ndarray

    @classmethod
    def draw(cls, shape: Any, m: int, *, seed: int, name: str) -> Good:
        d = prod(shape)
        return cls(tuple(shape), m, cls.buckets(d, m, seed, name), cls.signs(d, seed, name))

    @classmethod
    def buckets(cls, d: int, m: int, seed: int, name: str) -> np.ndarray:
        return (bits(d, seed, name, "h") % np.uint64(m)).astype(int)

    @classmethod
    def signs(cls, d: int, seed: int, name: str) -> np.ndarray:
        return 1 - 2 * (bits(d, seed, name, "s") % np.uint64(2)).astype(int)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.of

    @property
    def size(self) -> int:
        return self.m

    def tables(self) -> dict[str, np.ndarray]:
        return {"h": self.h, "s": self.s}

    def weights(self) -> np.ndarray:
        return self.s

    def apply(self, x: np.ndarray) -> np.ndarray:
        x = self._check(x)
        return scatter(x.reshape(*x.shape[: x.ndim - len(self.of)], prod(self.of)), self.h, self.weights(), self.m)

    def variance_factor(self) -> float:
        return 2 / self.m
