"""Every draw of a class that can list them, at a size small enough: no sampling, so no error rate."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from typing import Any

import numpy as np
from jaxtyping import Float

from sdi.validate.sketch_under_test import Shape, Subject, matrix_of

Array = np.ndarray
SIZES: tuple[tuple[tuple[Shape, int], ...], ...] = (
    (((2, 2), 2), ((2, 1), 2), ((2, 1), 1)),
    (((3,), 2), ((2,), 1)),
    (((2,), 3),),
)  # of a matrix, of a vector, and with more numbers than entries: the first of each that the class lists
MOST = 20_000


@dataclass(frozen=True, eq=False)
class Enumeration:
    """All matrices S with their probabilities."""

    shape: Shape
    m: int
    S: Float[Array, "N size D"]
    weights: Float[Array, "N"]
    total: Fraction  # of the probabilities: one

    @property
    def mean(self) -> Float[Array, "D D"]:
        """E S^T S."""
        return np.einsum("n,nsd,nse->de", self.weights, self.S, self.S)


@lru_cache(maxsize=2)
def enumerations(subject: Subject) -> list[Enumeration]:
    """One for each of SIZES, where the class lists its draws and there are not too many of them."""
    if not hasattr(subject.sketch, "enumerate_all"):
        return []
    found = (_first(subject, sizes) for sizes in SIZES)
    return [e for e in found if e is not None]


def _first(subject: Subject, sizes: tuple[tuple[Shape, int], ...]) -> Enumeration | None:
    for shape, m in sizes:
        try:
            draws: list[Any] = list(islice(subject.sketch.enumerate_all(shape, m), MOST + 1))
        except (ValueError, NotImplementedError):
            continue  # refused, or its randomness is not finite
        if 0 < len(draws) <= MOST:
            chances = [Fraction(p) for p, _ in draws]
            S = np.stack([matrix_of(sketch) for _, sketch in draws])
            return Enumeration(shape, m, S, np.array([float(p) for p in chances]), sum(chances, Fraction(0)))
    return None
