"""ScaledIntegers: sketches whose matrix is a square root times integers, so that moments can be computed exactly."""

from __future__ import annotations

from abc import abstractmethod
from fractions import Fraction
from math import prod, sqrt
from typing import Any

import numpy as np
from jaxtyping import Shaped

from sdi.sketch.protocol import LinearSketch, Shape

Array = np.ndarray


class ScaledIntegers(LinearSketch):
    """S = sqrt(squared_scale) Z, with Z in integers."""

    of: Shape

    @property
    def shape(self) -> Shape:
        return self.of

    @property
    @abstractmethod
    def squared_scale(self) -> Fraction:
        """The square of what the integers are multiplied with, exactly."""

    @abstractmethod
    def integers(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... size"]:
        """Z x, in the dtype of x: floats, integers or Fractions."""

    def apply(self, x: Shaped[Array, "..."]) -> Shaped[Array, "... size"]:
        return self.integers(as_floats(self._check(x))) * sqrt(self.squared_scale)


def as_floats(x: Array) -> Array:
    """Whole numbers as floats: what comes out is scaled."""
    return x.astype(np.float64) if x.dtype.kind in "iub" else x


def flattened(x: Array, shape: Shape) -> Shaped[Array, "... numbers"]:
    return x.reshape(*x.shape[: x.ndim - len(shape)], prod(shape))


def read_only(sketch: Any, **tables: Array) -> None:
    """Put tables into a frozen dataclass, as copies that cannot be changed."""
    for name, table in tables.items():
        table = np.array(table)
        table.flags.writeable = False
        object.__setattr__(sketch, name, table)


def check_signs(name: str, signs: Array) -> Array:
    signs = np.asarray(signs)
    if signs.size == 0 or signs.dtype.kind not in "if" or not (np.abs(signs) == 1).all():
        raise ValueError(f"{name} must hold -1 and +1, at least one, got {np.unique(signs)[:5]}")
    return signs.astype(np.int8)
