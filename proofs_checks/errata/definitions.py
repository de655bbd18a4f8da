"""Errata of the appendix's definitions and of CountSketch: buckets, indices, widths."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, product

import numpy as np

from sdi.inputs.looped_config import LoopedConfig
from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..backends.storage import body_shapes
from ..machinery.moments import every_count_sketch, moments_of_matrices
from ..tensor_sketch.fft import circular_convolution
from .erratum import Decision, erratum

Array = np.ndarray


@erratum(
    "m below d",
    where="Appendix on sketches, after the definition of CountSketch",
    written="m < d in the paper's settings",
    true="not for the vectors: the parity model's are all shorter than m = 2048, so a sketch would lengthen them",
    how="the vector parameters in the loop of the parity model",
    rests_on="a reading, that d is the length of any vector that is sketched; and a reconstructed configuration: "
    "the paper gives one block of width 256, its biases and norms are ours, after GPT-2",
)
def _m_below_d() -> Decision:
    widths = sorted({shape[0] for shape in body_shapes(LoopedConfig.parity()).values() if len(shape) == 1})
    return min(widths) > 2048, max(widths) < 2048, f"vectors of widths {widths}, m=2048"


@erratum(
    "growth with 1/m",
    where="Appendix on sketches, after the CountSketch lemma",
    written="the variance from hashing increases as 1/m",
    true="it is proportional to 1/m, so it decreases as m grows",
    how="the variance for x = y = (1, 1) over every CountSketch, m = 1 to 8",
)
def _growth() -> Decision:
    variances = []
    for m in range(1, 9):
        form = moments_of_matrices([s.dense() for s in every_count_sketch(2, m)]).variance
        ones = np.ones((1, 2), dtype=np.int64)
        variances.append(Fraction(int(form.numerators(ones, ones)[0, 0]), form.denominator))
    grows = all(a < b for a, b in pairwise(variances))
    proportional = all(v * (m + 1) == variances[0] for m, v in enumerate(variances))
    return grows, proportional, f"m=1..8: {', '.join(map(str, variances))}"


@erratum(
    "convolution of what",
    where="Appendix on sketches, definition of TensorSketch, convolution form",
    written="the entries of the vectors themselves are convolved",
    true="the entries of their CountSketches are",
    how="every TensorSketch of 2 x 2 at m = 2, where both readings have the right lengths",
)
def _convolution_of_sketches() -> Decision:
    x, y = np.array([2, 3]), np.array([5, 7])
    written, true = [], []
    for rows, cols in product(every_count_sketch(2, 2), repeat=2):
        right = TensorSketch(rows, cols).apply(np.outer(x, y))
        written.append(np.array_equal(circular_convolution(x, y), right))
        true.append(np.array_equal(circular_convolution(rows.apply(x), cols.apply(y)), right))
    return (
        all(written),
        all(true),
        f"unsketched: right for {sum(written)} of {len(written)} sketches; sketched: for all",
    )


def _convolved(sketch: TensorSketch, x: Array, y: Array, shift: int) -> Array:
    """By the display, with labels 1 to m: at label a, sum over k of x~_k y~_(1 + (a - k - shift) mod m)."""
    m = sketch.m
    a, b = sketch.rows.apply(x), sketch.cols.apply(y)  # position p holds label p + 1
    return np.array([sum(a[k - 1] * b[(label - k - shift) % m] for k in range(1, m + 1)) for label in range(1, m + 1)])


@erratum(
    "index of the convolution",
    where="Appendix on sketches, definition of TensorSketch, convolution form",
    written="with buckets labelled 1 to m and H = h1 + h2 mod m, the second factor has index 1 + (a - k) mod m",
    true="1 + (a - k - 1) mod m, if label m stands for H = 0; as written it is right only if buckets are added as "
    "counted from 0 and 1 is added at the end",
    how="every TensorSketch of 2 x 2 for m = 2 and 3, in integers",
    rests_on="a reading: hashes take the labels 1 to m, as [m] is defined, but which label H = 0 has is nowhere said",
)
def _convolution_index() -> Decision:
    x, y = np.array([2, 3]), np.array([5, 7])
    written, true, from_zero = [], [], []
    for m in (2, 3):
        for rows, cols in product(every_count_sketch(2, m), repeat=2):
            sketch = TensorSketch(rows, cols)
            definition = np.zeros(m, dtype=np.int64)  # position p holds label p + 1; H = 0 is label m
            for i, j in product(range(2), repeat=2):
                H = (rows.h[i] + 1 + cols.h[j] + 1) % m
                definition[(H - 1) % m] += rows.s[i] * cols.s[j] * x[i] * y[j]
            written.append(np.array_equal(_convolved(sketch, x, y, 0), definition))
            true.append(np.array_equal(_convolved(sketch, x, y, 1), definition))
            from_zero.append(np.array_equal(_convolved(sketch, x, y, 0), sketch.apply(np.outer(x, y))))
    text = f"of {len(true)} sketches: as written {sum(written)}, corrected {sum(true)}, counted from 0 {sum(from_zero)}"
    return all(written), all(true) and all(from_zero), text


@erratum(
    "range of the buckets",
    where="Appendix on sketches, definition of TensorSketch",
    written="H = h1 + h2 mod m, with output buckets 1 to m",
    true="H takes the values 0 to m - 1: bucket 0 would be lost and bucket m stay empty; count buckets from 0",
    how="all h1, h2 for m = 2 to 8, and the mean of <T X, T Y> without bucket 0",
)
def _range_of_buckets() -> Decision:
    taken = {m: {(a + b) % m for a in range(1, m + 1) for b in range(1, m + 1)} for m in range(2, 9)}
    written = all(values == set(range(1, m + 1)) for m, values in taken.items())
    true = all(values == set(range(m)) for m, values in taken.items())
    pairs = [TensorSketch(r, c).dense() for r, c in product(every_count_sketch(2, 2), repeat=2)]
    kept = moments_of_matrices([T[1:] for T in pairs])
    halved = np.array_equal(2 * kept.mean, kept.mean_denominator * np.eye(4, dtype=np.int64))
    return written, true and halved, f"without bucket 0, at m=2 the mean of <T X, T Y> is <X, Y> / 2: {halved}"
