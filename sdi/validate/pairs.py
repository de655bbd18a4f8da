"""Pairs of arrays on which sketches tend to show what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
from jaxtyping import Float

from sdi.validate.show_case import shown

Array = np.ndarray
KINDS = ("random", "rank one", "repeated", "sparse", "adversarial")


@dataclass(frozen=True, eq=False)
class Pair:
    """Two arrays of norm one."""

    kind: str
    x: Float[Array, "*shape"]
    y: Float[Array, "*shape"]

    def __str__(self) -> str:
        """Both, each scaled so that its largest entry is 1."""
        x, y = (z / np.abs(z).max() for z in (self.x, self.y))
        same = np.array_equal(x, y)
        return f"{self.kind}, x = y ~ {shown(x)}" if same else f"{self.kind}, x ~ {shown(x)}, y ~ {shown(y)}"

    @property
    def simplicity(self) -> int:
        """What to show first: a kind that a person can compute by hand."""
        return ("sparse", "repeated", "rank one", "random", "adversarial").index(self.kind)

    @property
    def product(self) -> float:
        return float((self.x * self.y).sum())


def pair(kind: str, x: Array, y: Array) -> Pair:
    """The pair, scaled to norms of one."""
    return Pair(kind, x / np.linalg.norm(x), y / np.linalg.norm(y))


def known_pairs(shape: tuple[int, ...], rng: np.random.Generator) -> list[Pair]:
    """Several of every kind but the last, which only a search finds."""
    x, y = rng.standard_normal((2, *shape))
    signs = rng.choice([-1.0, 1.0], size=shape)
    ones, first, last = np.ones(shape), np.zeros(shape), np.zeros(shape)
    first.flat[0] = last.flat[-1] = 1.0
    return [
        pair("random", x, y),
        pair("random", x, x + 0.5 * y),
        pair("rank one", ones, outer(shape, rng)),
        pair("rank one", outer(shape, rng), outer(shape, rng)),
        pair("rank one", ones, np.abs(outer(shape, rng))),
        pair("repeated", ones, ones),
        pair("repeated", x, x),
        pair("repeated", signs, signs),
        pair("sparse", first, first),
        pair("sparse", first, last if prod(shape) > 1 else first),
        pair("sparse", first + last, first - last if prod(shape) > 1 else first),
        pair("sparse", first, ones),
    ]


def outer(shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """An outer product; for a vector, just a vector."""
    factors = [rng.standard_normal(d) for d in shape]
    return factors[0] if len(shape) == 1 else np.multiply.outer(*factors)
