"""Where a sketch stands beside the shipped ones at one size: error, bytes, time. Indicative: small samples."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from sdi.sketch.load import SHIPPED, load_sketch
from sdi.validate.sketch_under_test import Subject

Array = np.ndarray
SHAPE, M, TOKENS = (96, 64), 128, 16
SEEDS, PAIRS, ROUNDS = 12, 24, 5


@dataclass(frozen=True)
class Standing:
    """A row: the root mean square error of <S x, S y> / (|x| |y|), what it holds and what it takes."""

    sketch: str
    numbers: int
    bytes: int
    error: float
    claimed: float  # the square root of the claimed bound: what the error is for the worst pair
    seconds: float  # of apply_outer in NumPy for one example
    against_tensor: float  # the same, as a share of tensor's


def standing(subject: Subject) -> list[Standing]:
    """The subject's row, then those of the shipped ones that draw at this size."""
    rng = np.random.default_rng(0)
    u, v = (rng.standard_normal((PAIRS, TOKENS, d)) for d in SHAPE)
    classes: dict[str, Any] = {subject.spec: subject.sketch}
    classes.update((name, load_sketch(name)) for name in SHIPPED if load_sketch(name) is not subject.sketch)
    rows, times = [], {}
    for name, cls in classes.items():
        try:
            one = cls.draw(SHAPE, M, seed=0, name="w")
        except ValueError:
            continue
        times[name] = _seconds(one, u[:1], v[:1])
        rows.append((name, one, _error(cls, u, v), float(one.variance_factor())))
    unit = next(seconds for name, seconds in times.items() if classes[name] is load_sketch("tensor"))
    return [
        Standing(name, one.size, one.nbytes, error, claim**0.5, times[name], times[name] / unit)
        for name, one, error, claim in rows
    ]


def _error(cls: Any, u: Array, v: Array) -> float:
    """Over seeds, of one pair's product after the other; the second of a pair is partly the first."""
    G = np.swapaxes(u, -1, -2) @ v
    G /= np.sqrt(np.square(G).sum(axis=(1, 2)))[:, None, None]
    x, y = G[0::2], G[0::2] + G[1::2]
    truth, size = (x * y).sum(axis=(1, 2)), np.sqrt(np.square(y).sum(axis=(1, 2)))
    off = []
    for seed in range(SEEDS):
        sketch = cls.draw(SHAPE, M, seed=seed, name="w")
        off.append(((sketch.apply(x) * sketch.apply(y)).sum(axis=1) - truth) / size)
    return float(np.sqrt(np.square(off).mean()))


def _seconds(sketch: Any, u: Array, v: Array) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        began = time.perf_counter()
        sketch.apply_outer(u, v)
        best = min(best, time.perf_counter() - began)
    return best
