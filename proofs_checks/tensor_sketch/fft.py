"""TensorSketch of an outer product is the circular convolution of two CountSketches, which an FFT computes.

With buckets counted from 0: TS(u, v)[b] = sum over k of CS(u)[k] CS'(v)[(b - k) mod m], for every m, odd ones too.

Decided exactly for the convolution: both sides are bilinear in (u, v) and a coefficient touches one row and one
column, so all pairs of basis vectors at 2 x 2 settle it; the library's definition is compared in integers, for
every hash and every sign. The FFT form works in float64: compared with the definition over many sizes, to
8 (1 + log2 m) eps (|CS |u|| |CS' v| + |u| |v|): an FFT's rounding grows with log m and the norms it is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from math import log2
from typing import Any

import numpy as np

from sdi.sketch.shipped.count_and_tensor import TensorSketch

from ..machinery.moments import every_count_sketch
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Convolve = Callable[[Array, Array], Array]
ApplyOuter = Callable[[TensorSketch, Array, Array], Array]


def circular_convolution(a: Array, b: Array) -> Array:
    """sum over k of a[..., k] b[..., (index - k) mod m], in the numbers given."""
    m = a.shape[-1]
    index = (np.arange(m)[:, None] - np.arange(m)[None, :]) % m
    return (a[..., None, :] * b[..., index]).sum(-1)


def _off_by_one(a: Array, b: Array) -> Array:
    return np.roll(circular_convolution(a, b), -1, axis=-1)


def _correlation(a: Array, b: Array) -> Array:
    return circular_convolution(a, b[..., -np.arange(b.shape[-1])])


def _cut_off(a: Array, b: Array) -> Array:
    """A convolution that does not wrap around."""
    m = a.shape[-1]
    wide = np.zeros((*a.shape[:-1], m), dtype=a.dtype)
    return circular_convolution(np.concatenate([a, wide], -1), np.concatenate([b, wide], -1))[..., :m]


@statement(
    "tensor_sketch.convolution",
    paper="Appendix on sketches, definition of TensorSketch, convolution form",
    method="exact",
    claim=circular_convolution,
    mutants={
        "index off by one": _off_by_one,
        "correlation instead of convolution": _correlation,
        "no wrapping around": _cut_off,
    },
)
def definition_is_a_convolution(convolve: Convolve, thorough: bool) -> Verdict:
    """TS(u, v) is the circular convolution of CS(u) and CS'(v), for every bucket and sign hash."""
    u, v = (np.array(side) for side in zip(*product(np.eye(2, dtype=np.int64), repeat=2), strict=True))
    outer = u[:, :, None] * v[:, None, :]
    return Verdict.all(
        (
            np.array_equal(convolve(rows.apply(u), cols.apply(v)), TensorSketch(rows, cols).apply(outer)),
            f"m={m}, rows {rows.h.tolist()} {rows.s.tolist()}, cols {cols.h.tolist()} {cols.s.tolist()}",
        )
        for m in range(1, 5 if thorough else 4)
        for rows, cols in product(every_count_sketch(2, m), repeat=2)
    )


def _conjugated(sketch: TensorSketch, u: Array, v: Array) -> Array:
    spectrum = np.fft.fft(sketch.rows.apply(u)) * np.conj(np.fft.fft(sketch.cols.apply(v)))
    return np.fft.ifft(spectrum).real


def _padded(sketch: TensorSketch, u: Array, v: Array) -> Array:
    n = 2 * sketch.m
    spectrum = np.fft.rfft(sketch.rows.apply(u), n=n) * np.fft.rfft(sketch.cols.apply(v), n=n)
    return np.fft.irfft(spectrum, n=n)[..., : sketch.m]


def _by_library(sketch: TensorSketch, u: Array, v: Array) -> Array:
    """One token each."""
    return sketch.apply_outer(u[..., None, :], v[..., None, :])


def _single(sketch: TensorSketch, u: Array, v: Array) -> Array:
    return _by_library(sketch, u, v).astype(np.float32).astype(np.float64)


def _fft_cases(apply_outer: ApplyOuter, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    widths = [*range(1, 34), 63, 64, 65, 97, 127, 128, 255, 256, 509, 1000, 2048]
    widths += [2047, 4096, 6561, 8191] if thorough else []
    eps = float(np.finfo(np.float64).eps)
    for m, (d, d2) in product(widths, [(1, 1), (3, 2), (2, 7), (24, 17)]):
        sketch = TensorSketch.draw((d, d2), m, name=f"fft {m} {d} {d2}")
        u, v = rng.standard_normal((5, d)), rng.standard_normal((5, d2))
        error = np.abs(apply_outer(sketch, u, v) - sketch.apply(u[:, :, None] * v[:, None, :])).max(-1)
        scale = np.linalg.norm(sketch.rows.apply(np.abs(u)), axis=-1) * np.linalg.norm(sketch.cols.apply(v), axis=-1)
        scale += np.linalg.norm(u, axis=-1) * np.linalg.norm(v, axis=-1)
        allowed = 8 * (1 + log2(m)) * eps * scale
        yield (
            (error <= allowed).all(),
            f"m={m}, {d} x {d2}: off by {error.max():.1e}, rounding allows {allowed.max():.1e}",
        )


@statement(
    "tensor_sketch.fft",
    paper="Appendix on sketches, definition of TensorSketch, FFT form",
    method="float64",
    claim=_by_library,
    mutants={"conjugates one side": _conjugated, "pads to twice m": _padded, "rounds to float32": _single},
)
def fft_form_is_the_definition(apply_outer: ApplyOuter, thorough: bool) -> Verdict:
    """iFFT(FFT(CS u) FFT(CS' v)) is TS(u, v) to rounding, for every m, odd ones included."""
    return Verdict.all(_fft_cases(apply_outer, thorough))
