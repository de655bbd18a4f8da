"""Subject: the sketch class under test, the size it is tested at, and where its draws come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt, prod
from typing import Any

import numpy as np

from sdi.sketch.protocol import check_m, check_shape

Array = np.ndarray
Shape = tuple[int, ...]
Sizes = tuple[tuple[Shape, int], ...]  # with an m for each shape
SEEDS = 1_000_000  # draws of one seed of the user's; the next seed's begin after them
MOST = 2_000  # seeds of the user's, so that every draw's seed fits into 31 bits
FEW = 1_000  # draws when a failure is shown at tiny sizes, after the verdict
TINY: Sizes = (
    ((1,), 1), ((1, 1), 1), ((2,), 1), ((2, 1), 1), ((1, 2), 2), ((2, 2), 2), ((3,), 2), ((3, 2), 4), ((2, 3), 3),
    ((7,), 4), ((4, 3), 4), ((5, 4), 8),
)  # fmt: skip
WIDTHS: Sizes = (
    ((9, 7), 13),
    ((61,), 37),
    ((19, 23), 200),
    ((29, 31), 300),
    ((32, 32), 32),
)  # odd, prime, wide, between the largest int8 and the largest uint8; and powers of two only, as models have them
# As many entries as numbers, and fewer; one number.
NARROW: Sizes = (((5, 4), 20), ((5, 4), 32), ((5, 4), 1), ((3, 2), 2048))
LARGE: Sizes = (
    ((61, 83), 16), ((1, 1301), 7), ((1301, 1), 7), ((5003,), 9), ((51, 61), 2048), ((70_001,), 4), ((515, 509), 4),
)  # fmt: skip


@dataclass(frozen=True)
class Subject:
    """A class with the sizes and the seed of its validation."""

    sketch: Any  # the class
    spec: str  # as the user named it
    shape: Shape = (8, 6)  # of the parameter
    m: int = 16  # numbers
    seed: int = 0  # of the draws
    draws: int = 4000  # for every statistical verdict

    def __post_init__(self) -> None:
        check_m(self.m)
        shape = check_shape(self.shape, "sdi validate")
        if prod(shape) <= self.m:
            raise ValueError(
                f"shape must have more than m={self.m} entries, got {shape}: smaller parameters are kept as they are"
            )
        if not 0 <= self.seed < MOST:
            raise ValueError(f"seed must be from 0 to {MOST - 1}, got {self.seed}")
        if not 100 <= self.draws <= SEEDS // 10:
            raise ValueError(f"draws must be from 100 to {SEEDS // 10}, got {self.draws}")
        object.__setattr__(self, "shape", shape)

    def draw(self, k: int = 0, shape: Shape | None = None, m: int | None = None, name: str = "core.weight") -> Any:
        """Its k-th sketch. shape, m: by default its own. name: of the parameter."""
        return self.sketch.draw(shape or self.shape, m or self.m, seed=self.seed_of(k), name=name)

    def seed_of(self, k: int) -> int:
        """The seed of its k-th sketch."""
        return self.seed * SEEDS + k

    def call(self, shape: Shape) -> str:
        """Its first draw, as one would write it. shape: of the parameter."""
        return f"draw({shape}, {self.m}, seed={self.seed * SEEDS}, name='core.weight')"

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The matrix, a square one, and the vector of as many entries as the first."""
        if len(self.shape) == 1:
            return (self.shape,)
        return tuple(dict.fromkeys((self.shape, square(self.m), (prod(self.shape),))))

    def smallest_first(self) -> Iterator[Any]:
        """Tiny ones, the user's, and ones of other widths. Sizes that the class refuses are passed over."""
        yield from self.drawn(TINY)
        for shape in reversed(self.shapes):
            yield self.draw(1, shape)
        yield from self.drawn(WIDTHS)

    def drawn(self, sizes: Sizes) -> Iterator[Any]:
        """One sketch of each of these sizes that the class does not refuse, and that fits into memory."""
        for shape, m in sizes:
            try:
                sketch = self.draw(1, shape, m)
                sketch.apply(np.zeros(shape))
            except (ValueError, MemoryError):
                continue
            yield sketch

    def rng(self, *words: int) -> np.random.Generator:
        """A generator of its own for each purpose, which words name."""
        return np.random.default_rng([self.seed, *words])


def square(m: int) -> Shape:
    """The smallest square matrix that is sketched and not kept as it is.

    >>> square(16), square(1)
    ((5, 5), (2, 2))
    """
    return (isqrt(m) + 1,) * 2


def digest(sketch: Any) -> dict[str, bytes]:
    """Its tables, each with its type and shape, as bytes to compare."""
    tables = {name: np.ascontiguousarray(table) for name, table in sketch.tables().items()}
    return {name: f"{t.dtype}{t.shape}".encode() + t.tobytes() for name, t in tables.items()}


def matrix_of(sketch: Any) -> Array:
    """The map as a matrix (size, numbers), from `apply` alone."""
    numbers = prod(sketch.shape)
    return np.asarray(sketch.apply(np.eye(numbers).reshape(-1, *sketch.shape)), dtype=np.float64).T
