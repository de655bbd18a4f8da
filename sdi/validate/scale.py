"""Norms are kept on average at every shape: a factor that depends on the shape would weigh parameters unequally.

x has random signs, drawn anew for every sketch, so that only the norms of the columns of S count, not their products.
"""

from __future__ import annotations

from math import prod

import numpy as np
from jaxtyping import Float

from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.mean_test import ALPHA, POWER, mean_is
from sdi.validate.subject import Shape, Subject
from sdi.validate.trial import JUDGE

Array = np.ndarray


@sketch_property(
    "scale",
    says="the mean of |S x|^2 is |x|^2 at shapes of every form",
    remedy="a projection to m numbers with entries of size 1 needs the factor 1 / sqrt(m); the factor may depend on m, "
    "never on the number of rows, columns or entries",
    needs=("repeatable", "seeded", "linear"),
)
def scale(subject: Subject, alpha: float = ALPHA) -> Evidence:
    n = max(subject.draws // 4, 60)
    shapes = shapes_of_every_form(subject)
    seen = f"{n} draws for each of {len(shapes)} shapes, from {shapes[0]} to {shapes[-1]}"
    finest = 0.0
    for k, shape in enumerate(shapes, start=1):
        factor = float(subject.draw(JUDGE, shape).variance_factor())
        test = mean_is(1.0, _norms(subject, shape, n), factor, alpha / len(shapes))
        finest = max(finest, test.resolution)
        if test.rejected:
            wrong = f"the mean of |S x|^2 / |x|^2 is {test.mean:.3g}, not 1"
            return Evidence(k, seen, wrong, f"shape {shape}, m={subject.m}, x = random signs", alpha)
    power = f"a factor more than {finest:.2g} off is found with probability {POWER}" if finest else None
    return Evidence(len(shapes), seen, alpha=alpha, power=power)


def _norms(subject: Subject, shape: Shape, n: int) -> Float[Array, "n"]:
    signs = subject.rng(10).choice([-1.0, 1.0], size=(n, *shape)) / np.sqrt(prod(shape))
    drawn = (subject.draw(JUDGE + k, shape).apply(signs[k]) for k in range(n))
    return np.array([np.square(np.asarray(y, dtype=np.float64)).sum() for y in drawn])


def shapes_of_every_form(subject: Subject) -> list[Shape]:
    """Smallest first: a row, a column, the shapes asked for, the transpose, more entries in either direction."""
    d_out, d_in = subject.shape[0], prod(subject.shape[1:])
    more = max(subject.m, d_out, d_in) + 1
    shapes = {(1, more), (more, 1), (more,), (d_in, d_out), (2 * d_out, d_in), (d_out, 3 * d_in), *subject.shapes}
    return sorted((s for s in shapes if prod(s) > subject.m), key=lambda s: (prod(s), s))
