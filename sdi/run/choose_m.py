"""choose_m: the sketch width for a wanted error, from the worst-case bound and measured on a batch of the user's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, inf, log2, prod
from typing import Any, NamedTuple

import numpy as np

from sdi.arguments import at_least_one, not_negative, number, whole
from sdi.backends import backend as backend_named
from sdi.inputs.settings import SketchSpec
from sdi.loop import Loop
from sdi.scores.products import sdi
from sdi.sketch.bounds import smallest_m, worst_case
from sdi.sketch.load import sketch_text
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features


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
    sketch: SketchSpec = "tensor",
) -> ChosenM:
    """The smallest power of two m for a standard error of at most target * |g| |phi|.

    target: the wanted relative error, such as 0.05. sketch: the sketch to use, as `SketchMap.draw` takes it.
    model, loss, loop, batch: what to measure on, all or none. backend: its backend.
    pilot_m, repeats, seed: width, number and first seed of the sketches that the error is measured with.

    The bound holds for any gradients. With a model, a loss, a loop and one batch, the error is also measured, from the
    spread of `repeats` sketches of width `pilot_m`, scaled as 1 / sqrt(m), and measured again at the m that this gives;
    real gradients often need much less. The bound of another sketch than the default may depend on the parameters'
    shapes, so it needs the model, too.
    Returns (bound, pilot, pilot_error, pilot_m): m by the bound, m as measured, the error at pilot_m; without a model,
    pilot and pilot_error are None.

    >>> choose_m(0.05).bound
    4096
    """
    target = number("target", target, "a number above 0, finite", lambda x: 0 < x < inf)
    pilot_m, repeats, seed = whole("pilot_m", pilot_m), whole("repeats", repeats), whole("seed", seed)
    at_least_one("pilot_m", pilot_m)
    not_negative("seed", seed)
    plain = sketch == "tensor"
    if model is None:
        if not plain:
            raise ValueError(
                f"the bound of sketch={sketch_text(sketch)!r} depends on shapes: give model, loss, loop, batch"
            )
        return ChosenM(smallest_m(target, power_of_two=True), None, None, pilot_m)
    if loss is None or loop is None or batch is None:
        raise ValueError("a pilot needs model, loss, loop and batch; got a model without the others")
    if repeats < 2:
        raise ValueError(f"repeats must be at least 2 to see a spread, got {repeats}")
    verbs = backend_named(backend)
    shapes = verbs.body_shapes(model, loop)
    bound = smallest_m(target, power_of_two=True) if plain else bound_of(shapes, target, sketch)

    def error_at(m: int) -> float:
        runs = []
        for r in range(repeats):  # the same passes over one batch, but for the sketch: one audit is enough
            drawn, audit = SketchMap.draw(shapes, m, seed + r, sketch=sketch), "off" if r else "first"
            runs.append(verbs.Featurizer(model, loss, loop=loop, sketch=drawn, audit=audit)(batch))
        return relative_error(runs)

    pilot_error = error_at(pilot_m)
    m = min(_power_of_two(pilot_m * (pilot_error / target) ** 2), bound)
    # Parameters with at most pilot_m entries were kept whole, without error; so it is measured again at the new m.
    # Doubled, not scaled: from a small m, 1 / sqrt(m) overshoots.
    while m < bound and (pilot_error if m == pilot_m else error_at(m)) > target:
        m *= 2
    return ChosenM(bound, m, pilot_error, pilot_m)


def bound_of(shapes: Mapping[str, tuple[int, ...]], target: float, sketch: SketchSpec) -> int:
    """The smallest power of two at which no parameter's sketch claims a variance factor above target^2.

    >>> bound_of({"w": (99, 99)}, 0.2, "gaussian"), bound_of({"w": (99, 99)}, 0.2, "exact")
    (64, 1)
    """
    m = 1
    while True:
        drawn = SketchMap.draw(shapes, m, sketch=sketch).sketches.values()
        worst = max(worst_case(s) for s in drawn)
        if worst <= target**2:
            return m
        if m >= max(prod(shape) for shape in shapes.values()):
            raise ValueError(
                f"sketch={sketch_text(sketch)!r} claims a factor of {worst:g} at m={m}, where the largest parameter "
                f"would fit: no m has a standard error of {target:g}"
            )
        m *= 2


def relative_error(runs: Sequence[Features]) -> float:
    """The root mean square error of sdi over all pairs and steps, relative to |g| |phi|, from several sketches."""
    scores = [sdi(f, f) for f in runs]
    norms = [(np.linalg.norm(f.g, axis=-1), np.linalg.norm(f.phi, axis=-1)) for f in runs]
    scale = np.mean([g[:, None, None] * phi[None] for g, phi in norms], axis=0)
    acts = scale > 0
    return float(np.sqrt((np.var(scores, axis=0, ddof=1)[acts] / np.square(scale[acts])).mean())) if acts.any() else 0.0


def _power_of_two(x: float) -> int:
    """The smallest that is at least x."""
    return 1 << max(0, ceil(log2(max(x, 1.0))))
