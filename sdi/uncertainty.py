"""How sure a sketched score is: a standard error for each, from the closed-form bound on its variance.

A score is sum_k eta_k sum_p <S g_p, S phi_p> over checkpoints k and parameters p. Sketches of different parameters are
independent, so within a checkpoint variances add; all checkpoints share one sketch, so between them standard deviations
do. Norms are those of the sketched parts, whose squares are unbiased for the true ones.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sdi.bounds import worst_case
from sdi.features import Features
from sdi.sketch_map import SketchMap

Array = np.ndarray
Z95 = 1.959963984540054


def standard_error(
    sketch: SketchMap, train: Features, query: Features, eta: Float[Array, "P"]
) -> Float[Array, "n ..."]:
    """Bound on the standard deviation of one checkpoint's scores: train values (n, ...) against query values."""
    factor = np.array([worst_case(sketch.sketches[b.name]) for b in sketch.blocks]) * np.square(eta)
    a, b = (block_norms(f.values, f) for f in (train, query))
    variance = np.tensordot(a * factor, b, axes=(-1, -1))
    return np.sqrt(variance)


def block_norms(values: Float[Array, "... D"], features: Features) -> Float[Array, "... P"]:
    """The squared norm of each parameter's part."""
    starts = [block.start for block in features.blocks]
    return np.add.reduceat(np.square(values, dtype=np.float64), starts, axis=-1)
