"""choose_m: what sketch width a wanted error needs, by the bound, and by a pilot batch of one's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from sdi.backends import backend as backend_named
from sdi.bounds import smallest_m
from sdi.loop import Loop
from sdi.scores import sdi
from sdi.sketch_map import SketchMap


class ChosenM(NamedTuple):
    """Powers of two: what the worst case needs, and what the pilot's gradients need (None without a pilot)."""

    bound: int
    pilot: int | None
    pilot_error: float | None  # root mean square error of sdi at pilot_m, relative to |g| |phi|
    pilot_m: int


def choose_m(
    target: float,
    *,
    model: Any = None,
    loss: Callable[[Any, Any], Any] | None = None,
    loop: Loop | None = None,
    batch: Any = None,
    pilot_m: int = 256,
    repeats: int = 8,
    seed: int = 0,
    backend: str = "fast",
) -> ChosenM:
    """The smallest power of two for a standard error of at most target * |g| |phi|.

    The bound holds for any gradients. With a model, a loss, a loop and one batch, the error is also measured, from the
    spread of `repeats` sketches of width `pilot_m`, and scaled as 1 / sqrt(m); real gradients often need much less.

    >>> choose_m(0.05).bound
    4096
    """
    bound = smallest_m(target, power_of_two=True)
    if model is None:
        return ChosenM(bound, None, None, pilot_m)
    if loss is None or loop is None or batch is None:
        raise ValueError("a pilot needs model, loss, loop and batch; got a model without the others")
    if repeats < 2:
        raise ValueError(f"repeats must be at least 2 to see a spread, got {repeats}")
    verbs = backend_named(backend)
    shapes = verbs.body_shapes(model, loop)
    runs, norms = [], []
    for r in range(repeats):
        features = verbs.featurize(model, loss, batch, loop=loop, sketch=SketchMap.draw(shapes, pilot_m, seed + r))
        runs.append(sdi(features, features))
        g, phi = np.linalg.norm(features.g, axis=-1), np.linalg.norm(features.phi, axis=-1)
        norms.append(g[:, None, None] * phi[None])
    scale = np.mean(norms, axis=0)
    spread = np.var(runs, axis=0, ddof=1)[scale > 0] / np.square(scale[scale > 0])
    error = float(np.sqrt(spread.mean()))
    wanted = pilot_m * (error / target) ** 2
    return ChosenM(bound, 1 << max(0, int(np.ceil(np.log2(max(wanted, 1.0))))), error, pilot_m)
