"""fold: the features of a narrow sketch from those of a wide one, without another pass.

If n divides m, then y_n[b] = sum over k of y_m[b + k n] is the sketch with buckets h mod n and the same signs: for
CountSketch because entry i moves from bucket h(i) to h(i) mod n, for TensorSketch because
(h(i) + h'(j) mod m) mod n = (h(i) mod n + h'(j) mod n) mod n. Tables of the family "table" are drawn as 64 bits modulo
m, so this is the very sketch that the same seed draws at width n. Errors at widths that were folded from one
sketch are dependent: a slope is taken per seed, and its interval over seeds.
"""

from __future__ import annotations

import numpy as np

from sdi.errors import SketchMismatch
from sdi.sketch.shipped.count_and_tensor import CountSketch, Keep, TensorSketch
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features


def fold(features: Features, wide: SketchMap, narrow: SketchMap) -> Features:
    """The features of the narrow sketch, from those of the wide one: equal to `featurize` with it, to rounding."""
    if features.sketch != wide.label:
        raise SketchMismatch(f"features were made with sketch {features.sketch}, not with {wide.label}")
    values, outside = [], []
    for block in features.blocks:
        part = slice(block.start, block.stop)
        values.append(_fold(features.values[..., part], wide, narrow, block.name))
        if features.outside is not None:
            outside.append(_fold(features.outside[..., part], wide, narrow, block.name))
    whole = np.concatenate(outside, axis=-1) if outside else None
    return Features(np.concatenate(values, axis=-1), features.tau, narrow.blocks, narrow.label, whole, features.ids)


def _fold(y: np.ndarray, wide: SketchMap, narrow: SketchMap, name: str) -> np.ndarray:
    big, small = wide.sketches[name], narrow.sketches[name]
    if isinstance(big, Keep):  # it is the gradient itself
        return np.asarray(small.apply(y.reshape(*y.shape[:-1], *small.shape)), dtype=y.dtype)
    if not (isinstance(small, type(big)) and big.size % small.size == 0 and _follows(big, small)):
        raise SketchMismatch(
            f"the sketch of {name!r} of width {small.size} does not follow from that of width {big.size}: draw both "
            "from one seed, and take widths that divide one another"
        )
    return y.reshape(*y.shape[:-1], -1, small.size).sum(axis=-2)


def _follows(big: object, small: object) -> bool:
    """Whether the small sketch's buckets are the big one's modulo its width, with the same signs."""
    if isinstance(big, TensorSketch) and isinstance(small, TensorSketch):
        return _follows(big.rows, small.rows) and _follows(big.cols, small.cols)
    assert isinstance(big, CountSketch)
    assert isinstance(small, CountSketch)
    return np.array_equal(big.h % small.m, small.h) and np.array_equal(big.s, small.s)
