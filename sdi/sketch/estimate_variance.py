"""An estimate of Var <S x, S y> from a = S x and b = S y alone: what narrower error bars are made of.

With N = |x| |y| and z = x.y, the variance of every shipped sketch but the mask is at most f/2 (N^2 + z^2), where f is
its worst case (`half_bound`): for x = y that is f N^2, for x orthogonal to y half of it. Numbers that are drawn alike
say more: their own products show how far they stray (`over_frequencies`, `over_entries`, `over_grid`). Each of these
is right on average, and heavy-tailed: for x near y it is small exactly where the product is too small. So it is kept
`between` the half bound and its share (1 + z^2 / N^2) / 2. `proofs_checks/error_bars` decides each of these.

All take `Pairs` of n vectors a and q vectors b and give (n, q).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Array = np.ndarray


class Pairs(NamedTuple):
    """n sketched vectors a and q sketched vectors b, with the norms and products of all pairs."""

    a: Float[Array, "n m"]
    b: Float[Array, "q m"]
    norms: Float[Array, "n q"]  # |a|^2 |b|^2
    products: Float[Array, "n q"]  # a.b

    @classmethod
    def of(cls, a: Float[Array, "n m"], b: Float[Array, "q m"]) -> Pairs:
        return cls(a, b, np.outer(np.square(a).sum(axis=-1), np.square(b).sum(axis=-1)), a @ b.T)

    def unknown(self) -> Float[Array, "n q"]:
        """The estimate where a sample variance cannot be taken, for lack of two numbers: infinity for every pair."""
        return np.full(self.norms.shape, np.inf)


def half_bound(factor: float, pairs: Pairs) -> Float[Array, "n q"]:
    """f/2 (|a|^2 |b|^2 + (a.b)^2).

    >>> half_bound(0.5, Pairs.of(np.array([[2.0, 0.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])))
    array([[2., 1.]])
    """
    return np.asarray(factor / 2 * (pairs.norms + np.square(pairs.products)))


def between(factor: float, pairs: Pairs, sample: Float[Array, "n q"]) -> Float[Array, "n q"]:
    """`sample`, clipped to at most the half bound and at least (1 + cos^2) / 2 times the half bound."""
    most, whole = half_bound(factor, pairs), factor * pairs.norms
    share = most / np.where(whole > 0, whole, 1)  # (1 + cos^2) / 2; where the whole is nothing, so is the most
    return np.asarray(np.clip(sample, share * most, most))


def over_frequencies(pairs: Pairs) -> Float[Array, "n q"]:
    """TensorSketch's variance without its part in 1 / m^2: 2/m times the variance of Re(A B*) over frequencies of a, b.

    A sketch's Fourier coefficients at two frequencies w and w' with w != +-w' are products of sums over random buckets
    whose phases cancel: the products A B* are uncorrelated, all with the mean x.y, and those at 0 < w < m/2 with one
    variance. Over all w they sum to m a.b, twice those at 0 < w < m/2 and the one or two at 0 and m/2.
    """
    m = pairs.a.shape[-1]
    count = (m - 1) // 2
    if count < 2:
        return pairs.unknown()
    A, B = np.fft.rfft(pairs.a), np.fft.rfft(pairs.b)
    ends = sum(np.outer(A[:, w].real, B[:, w].real) for w in {0, m // 2} - set(range(1, count + 1)))
    mean = (m * pairs.products - ends) / (2 * count)
    kept = slice(1, count + 1)
    return _variance(_squares(A[:, kept]) @ _squares(B[:, kept]).T, mean, count) * 2 / m


def over_entries(pairs: Pairs, out_of: int) -> Float[Array, "n q"]:
    """The variance for m entries sampled without replacement from `out_of`: m (1 - m / out_of) Var(a_k b_k)."""
    m = pairs.a.shape[-1]
    if m < 2:
        return pairs.unknown()
    squares = np.square(pairs.a) @ np.square(pairs.b).T
    return _variance(squares, pairs.products / m, m) * m * (1 - m / out_of)


def over_grid(pairs: Pairs, k: tuple[int, int], drawn: tuple[bool, bool]) -> Float[Array, "n q"]:
    """The variance for a two-sided projection: k1 times the variance of the k1 row sums, plus k2 times that of columns.

    Rows are drawn alike given the columns, and columns given the rows: a two-way table. What both sides do together is
    counted twice, so this is at least the variance, on average. A side that was not drawn adds nothing.
    """
    A, B = (side.reshape(len(side), *k) for side in (pairs.a, pairs.b))
    total = np.zeros_like(pairs.norms)
    for axis, (count, random) in enumerate(zip(k, drawn, strict=True), start=1):
        if random and count < 2:
            return pairs.unknown()
        if random:
            lines = zip(np.moveaxis(A, axis, 0), np.moveaxis(B, axis, 0), strict=True)
            squares = sum(np.square(one @ other.T) for one, other in lines)
            total += _variance(np.asarray(squares), pairs.products / count, count) * count
    return total


def _squares(F: Array) -> Float[Array, "n m"]:
    """Factors whose inner product over frequencies is the sum of Re(A B*)^2 = (a c + b d)^2, A = a + ib, B = c + id."""
    return np.concatenate([np.square(F.real), np.square(F.imag), 2**0.5 * F.real * F.imag], axis=1)


def _variance(squares: Array, mean: Array, count: int) -> Array:
    return np.asarray(np.maximum(squares - count * np.square(mean), 0) / (count - 1))
