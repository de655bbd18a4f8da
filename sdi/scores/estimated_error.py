"""The variance of scores, estimated from the sketched numbers, with a margin for the error of that estimate.

An estimate is made of the same numbers as the score. Where g and phi are alike, a score that is too small by a share r
of itself has a standard error that is too small by as much: the miss of an interval is one-sided, and more frequent
than 5%. With r the standard error over the norms |g| |phi|, times the cosine of g and phi, a factor 1 / (1 - r) undoes
it. `MARGIN` is for the rest: that the estimate itself is uncertain.

Measured (docs/results/error_bars), in cells of model, sketch, m from 64 to 1024, self or cross pairs, steps or totals:
the bound covers from 83% to 100%, at 2 times the true deviation for cross pairs of the default sketch; this from 94%
(kronecker at m = 256; from 96% otherwise), at 1.1 to 1.4 times.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float

from sdi.sketch.as_json import is_own
from sdi.sketch.bounds import worst_case
from sdi.sketch.estimate_variance import Pairs
from sdi.sketch.protocol import Sketch
from sdi.sketch.sketch_map import SketchMap

Array = np.ndarray
MARGIN = 1.1
WIDEST = 0.75  # the largest r that is undone; what lies beyond is said in a result's notes
CHUNK_BYTES = 1 << 25  # of one array of pairs, or of features


def estimated_variance(
    sketch: SketchMap, train: Float[Array, "n ... D"], query: Float[Array, "q ... D"], eta: Float[Array, "P"]
) -> Float[Array, "n ... q ..."]:
    """The estimated variance of one checkpoint's scores, from sketched features. eta: of each parameter."""
    x, y = (side.reshape(-1, side.shape[-1]) for side in (train, query))
    rows = max(1, CHUNK_BYTES // (8 * max(len(y), x.shape[1])))
    parts = [_of_rows(sketch, x[i : i + rows], y, eta) for i in range(0, max(len(x), 1), rows)]
    return np.concatenate(parts).reshape(*train.shape[:-1], *query.shape[:-1])


def _of_rows(
    sketch: SketchMap, x: Float[Array, "n D"], y: Float[Array, "q D"], eta: Float[Array, "P"]
) -> Float[Array, "n q"]:
    variance, score, norms = (np.zeros((len(x), len(y))) for _ in range(3))
    for block, weight in zip(sketch.blocks, eta, strict=True):
        if weight:
            (a, a_size), (b, b_size) = (_unit(side[:, block.start : block.stop]) for side in (x, y))
            pairs, size = Pairs.of(a, b), weight * np.outer(a_size, b_size)
            variance += np.square(size) * estimate_of(sketch.sketches[block.name], pairs)
            score += size * pairs.products
            norms += size
    whole = np.where(norms > 0, norms, 1)  # where the norms are nothing, so are the variance and the score
    r = np.sqrt(variance) / whole * (np.abs(score) / whole)
    return variance * np.square(MARGIN / (1 - np.minimum(r, WIDEST)))


def _unit(x: Float[Array, "n m"]) -> tuple[Float[Array, "n m"], Float[Array, "n"]]:
    """Rows scaled to norm one (so that fourth powers neither overflow nor underflow), and their norms."""
    size = np.sqrt(np.square(x, dtype=np.float64).sum(axis=1))
    return (x / np.where(size > 0, size, 1.0)[:, None]).astype(x.dtype), size


def estimate_of(sketch: Sketch, pairs: Pairs) -> Float[Array, "n q"]:
    """One parameter's estimated variance; for a user's sketch, or one without an estimate, the bound that it claims."""
    own = getattr(sketch, "variance_estimate", None) if is_own(sketch) else None
    return np.asarray(worst_case(sketch) * pairs.norms if own is None else own(pairs))
