"""periods: does a curve repeat, with which period, and could noise have done it?

The autocorrelation at lag p is Pearson's, between the curve and itself p steps later. A period is a lag at which it
peaks. It is called one only if two kinds of surrogate rarely peak as high, at any lag:
  - phase-shuffled: every stretch of one period is rotated by a random amount of its own, so that cycles stay and their
    common phase goes;
  - red noise: AR(1) with the curve's own variance and correlation of neighbours (if positive), which is smooth and
    wanders.
Shuffling the phases of the Fourier transform would not do: it keeps the circular autocorrelation as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Array = np.ndarray
ALPHA = 0.005  # nominal; tests/experiments/test_parity_analysis.py bounds how much noise is called periodic
CLOSE = 0.9  # of the highest peak: an earlier lag this high is the period, and the highest its multiple
FLAT = 1e-6  # of the curve's size: less variation than this is none


@dataclass(frozen=True)
class Period:
    """The dominant lag of a curve, the autocorrelation there, and how often surrogates peak as high."""

    lag: int | None  # of the highest peak; None if there is none
    height: float
    p_phase: float
    p_red: float

    @property
    def significant(self) -> bool:
        return self.lag is not None and max(self.p_phase, self.p_red) <= ALPHA

    @property
    def found(self) -> int | None:
        """The period, or None where noise would do as well."""
        return self.lag if self.significant else None


def autocorrelation(curves: Float[Array, "... n"], most: int | None = None) -> Float[Array, "... most+1"]:
    """Lags 0..most (a third of the length unless told) of curves, each without its straight-line trend.

    >>> autocorrelation(np.tile([0.0, 1.0, 1.0, 0.0], 8), 4).round(1).tolist()
    [1.0, -0.0, -1.0, 0.0, 1.0]
    """
    x = detrend(np.asarray(curves, dtype=np.float64))
    n = x.shape[-1]
    most = n // 3 if most is None else most
    out = np.ones((*x.shape[:-1], most + 1))
    for p in range(1, most + 1):
        a, b = x[..., : n - p], x[..., p:]
        a, b = a - a.mean(-1, keepdims=True), b - b.mean(-1, keepdims=True)
        size = np.sqrt((a * a).sum(-1) * (b * b).sum(-1))
        out[..., p] = (a * b).sum(-1) / np.where(size > 0, size, 1.0)
    return out


def detrend(x: Float[Array, "... n"]) -> Float[Array, "... n"]:
    """Minus its least-squares line."""
    t = np.arange(x.shape[-1]) - (x.shape[-1] - 1) / 2
    slope = (x * t).sum(-1, keepdims=True) / (t * t).sum()
    return np.asarray(x - x.mean(-1, keepdims=True) - slope * t)


def peaks(acf: Float[Array, "... lags"]) -> Float[Array, "... lags"]:
    """The autocorrelation where it is not below its neighbours, at lags of 2 and more; -1 elsewhere."""
    out = np.full(acf.shape, -1.0)
    here = acf[..., 2:-1]
    out[..., 2:-1] = np.where((here >= acf[..., 1:-2]) & (here >= acf[..., 3:]), here, -1.0)
    return out


def find_period(curve: Float[Array, "n"], surrogates: int = 999, seed: int = 0) -> Period:
    """The dominant period of a curve, tested."""
    x = np.asarray(curve, dtype=np.float64)
    if x.ndim != 1 or len(x) < 12:
        raise ValueError(f"curve must be one-dimensional with at least 12 steps, got shape {x.shape}")
    x = detrend(x)
    if x.std() <= FLAT * max(np.abs(curve).max(), np.finfo(float).tiny):
        return Period(None, 0.0, 1.0, 1.0)
    high = peaks(autocorrelation(x))
    height = float(high.max())
    if height <= 0:
        return Period(None, 0.0, 1.0, 1.0)
    lag = int(np.argmax(high >= CLOSE * height))
    rng = np.random.default_rng(seed)
    p_values = []
    for drawn in (phase_shuffled(x, lag, surrogates, rng), red_noise(x, surrogates, rng)):
        other = peaks(autocorrelation(drawn)).max(-1)
        p_values.append(float((1 + (other >= high[lag]).sum()) / (1 + surrogates)))
    return Period(lag, float(high[lag]), *p_values)


def phase_shuffled(x: Float[Array, "n"], period: int, count: int, rng: np.random.Generator) -> Float[Array, "count n"]:
    """Curves of which every stretch of one period is rotated by a random amount."""
    n = len(x)
    cycles = -(-n // period)
    index = np.arange(cycles * period).reshape(cycles, period)
    shift = rng.integers(0, period, (count, cycles, 1))
    start = index[:, :1]
    rotated = (start + (index - start + shift) % period).reshape(count, -1)[:, :n]
    # The last stretch may be cut short: what would lie beyond the end is taken from one period earlier.
    return np.asarray(x[np.where(rotated < n, rotated, rotated - period)])


def red_noise(x: Float[Array, "n"], count: int, rng: np.random.Generator) -> Float[Array, "count n"]:
    """AR(1) with the variance of x and the correlation of its neighbours, or white if that is negative."""
    n = len(x)
    c = max(0.0, min(0.99, float((x[1:] * x[:-1]).sum() / (x * x).sum())))
    noise = rng.standard_normal((count, n))
    out = noise.copy()
    for t in range(1, n):
        out[:, t] = c * out[:, t - 1] + np.sqrt(1 - c * c) * noise[:, t]
    return np.asarray(out * x.std())


def lag_after(first: Float[Array, "n"], then: Float[Array, "n"], period: int) -> tuple[int, float]:
    """(lag, correlation): by how many steps, 0 to period - 1, `then` follows `first` at the highest correlation.

    >>> saw = np.tile([3.0, 2.0, 1.0, 0.0], 6)
    >>> lag_after(saw, np.roll(saw, 1), 4)[0]
    1
    """
    a, b = detrend(np.asarray(first, float)), detrend(np.asarray(then, float))
    found = []
    for lag in range(period):
        x, y = a[: len(a) - lag], b[lag:]
        x, y = x - x.mean(), y - y.mean()
        size = np.sqrt((x * x).sum() * (y * y).sum())
        found.append(float((x * y).sum() / size) if size > 0 else 0.0)
    best = int(np.argmax(found))
    return best, found[best]


def jumps(margin: Float[Array, "n"]) -> Float[Array, "n"]:
    """The rise of a curve at each step, 0 at the first."""
    return np.diff(margin, prepend=margin[:1])
