"""Standard errors of sketched scores, from the bound on their variance or from an estimate of it.

A score is sum_k eta_k sum_p <S g_p, S phi_p> over checkpoints k and parameters p. Sketches of different parameters are
independent, so within a checkpoint variances add; all checkpoints share one sketch, so between them standard deviations
do. Norms are those of the sketched parts, whose squares are unbiased for the true ones.

"bound" takes the worst case of every sketch, f |g|^2 |phi|^2: about twice too wide for most pairs, and too narrow for a
gradient with itself where that is the worst case, or nearly, and f is not small, since norms that are seen too small
make the score and its error too small at once. "estimated" takes the sketch's own estimate of the variance, and widens
it for that (`sdi.scores.estimated_error`).

A store of float16 adds its rounding: every number x becomes x + e with |e| <= 2^-11 |x|. As errors that are independent
of one another, those of phi add sum_i g_i^2 e_i^2 <= 2^-22 |g|^2 |phi|^2 to the variance, and those of g as much; of a
sum over steps, each step adds its own. (Numbers below 2^-14 of their example's largest are rounded to 2^-25 of that,
the size of float32's rounding, which is not counted either.)

A store of int8 rounds at random, so that its errors are independent: those of phi add at most |g|^2 (s / 254)^2, where
s is the largest |phi_i| of the parameter's part, and those of g as much. That both sides are rounded adds the product
of their errors, which is in it, too: |g|^2 is that of what is stored, errors and all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from sdi.scores.estimated_error import estimated_variance
from sdi.sketch.bounds import worst_case
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features
from sdi.store.int8 import rounding_variance

Array = np.ndarray
Z95 = 1.959963984540054
SKEWED = {"bound": 1 / 16, "estimated": 1 / 4}  # the worst cases from which on 95% was measured to cover less
ROUNDING = {np.dtype(np.float16): 2.0**-11}


class Sizes(NamedTuple):
    """Features with, for each parameter, the squared norm of its part and the variance that rounding adds to it."""

    values: Float[Array, "... D"]
    squares: Float[Array, "... P"]
    rounding: Float[Array, "... P"] | None


def sizes(features: Features, dtype: np.dtype, whole: bool) -> Sizes:
    """The `Sizes` of features that were stored as dtype; if whole, those of their sum over steps."""
    values = features.g if whole else features.values
    squares = block_norms(values, features)
    if dtype != np.int8 and dtype not in ROUNDING:
        return Sizes(values, squares, None)
    rounding = _rounding(features.values, features, dtype)
    if whole and features.has_steps:
        rounding = rounding.sum(axis=1)
        rounding += 0 if features.outside is None else _rounding(features.outside, features, dtype)
    return Sizes(values, squares, rounding)


def _rounding(values: Float[Array, "... D"], features: Features, dtype: np.dtype) -> Float[Array, "... P"]:
    """What rounding to dtype, once, adds to the variance of a product with a part of unit norm."""
    if dtype == np.int8:
        return rounding_variance(values, features.blocks)
    return ROUNDING[dtype] ** 2 * block_norms(values, features)


def standard_error(
    sketch: SketchMap, train: Sizes, query: Sizes, eta: Float[Array, "P"], bars: str = "bound"
) -> Float[Array, "n ..."]:
    """Standard deviations of one checkpoint's scores. eta: of each parameter. bars: "bound" or "estimated"."""
    pairs = _variances(sketch, train, query, eta, bars)
    added = sum(np.tensordot(a, b, axes=(-1, -1)) for a, b in pairs)
    if bars == "bound":
        return np.sqrt(added)
    return np.sqrt(added + estimated_variance(sketch, train.values, query.values, eta))


def standard_error_by_parameter(
    sketch: SketchMap, train: Sizes, query: Sizes, eta: Float[Array, "P"], bars: str = "bound"
) -> Float[Array, "n ... P"]:
    """Standard deviations of each parameter's part of one checkpoint's scores, as `standard_error`."""
    pairs = _variances(sketch, train, query, eta, bars)
    added = sum(a.reshape(len(a), *[1] * (b.ndim - 1), -1) * b for a, b in pairs)
    if bars == "bound":
        return np.sqrt(added)
    alone = [eta * (np.arange(len(eta)) == p) for p in range(len(eta))]
    parts = [estimated_variance(sketch, train.values, query.values, one) for one in alone]
    return np.sqrt(added + np.stack(parts, axis=-1))


def _variances(
    sketch: SketchMap, train: Sizes, query: Sizes, eta: Float[Array, "P"], bars: str
) -> list[tuple[Array, Array]]:
    """Pairs of factors; their products, added up, are the bound on the variance of each parameter's part, and the
    variance that rounding adds; where the variance is estimated, only that."""
    factor = np.array([worst_case(sketch.sketches[b.name]) for b in sketch.blocks])
    weight = np.square(eta)
    found = [(train.squares * factor * weight, query.squares)] if bars == "bound" else []
    if train.rounding is not None and query.rounding is not None:
        found += [(train.rounding * weight, query.squares), (train.squares * weight, query.rounding)]
    return found


def doubts(sketch: SketchMap, bars: str = "bound") -> list[str]:
    """Notes for the result on error bars that cover less than 95%, because sketched norms may be far too small."""
    factors = {name: worst_case(one) for name, one in sketch.sketches.items()}
    wide = {name: factor for name, factor in factors.items() if factor >= 1}
    skewed = {name: factor for name, factor in factors.items() if factor >= SKEWED[bars]}
    if not skewed:
        return []
    worst = max(skewed, key=lambda name: skewed[name])
    size = f"the standard error of a sketched product is up to {skewed[worst] ** 0.5:.2g} times the norms ({worst})"
    if wide:
        return [
            f"error bars may be far too small for {', '.join(wide)}: {size}, and so is that of the norms themselves; "
            "take a larger m"
        ]
    remedy = "stderr='estimated' or a larger m" if bars == "bound" else "a larger m"
    return [
        "error bars of 95% may cover less of the influence of an example on itself, or on one like it: where its norm "
        f"is seen too small, so is the error, and {size}; use {remedy}"
    ]


def block_norms(values: Float[Array, "... D"], features: Features) -> Float[Array, "... P"]:
    """The squared norm of each parameter's part."""
    starts = [block.start for block in features.blocks]
    return np.add.reduceat(np.square(values, dtype=np.float64), starts, axis=-1)
