"""Exact moments of sketched inner products: integer sums over every function of a family of hashes.

A sketch draws h uniformly from the rows of `buckets` and s uniformly from the rows of `signs`, independently.
Then <CS x, CS y> = sum over (i, k) of s(i) s(k) [h(i) = h(k)] x_i y_k, and its square has one coefficient for every
(i, k, i', k'): a product of four signs, summed over all s, times the number of h for which both pairs meet.
TensorSketch has the same for rows and for columns, and its entries (i, j), (k, l) meet when
h(i) - h(k) = -(h'(j) - h'(l)) modulo m; so it takes the joint counts of two differences, for rows and for columns,
and a sum over the m^2 values they can take. A monomial of the second moment has at most four rows and four
columns, so four of each settle every size.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import numpy as np
from jaxtyping import Int

from sdi.sketch.shipped.count_and_tensor import CountSketch

from .biquadratic import SAFE, Form

Array = np.ndarray


class Hashes(NamedTuple):
    """All the functions h and all the functions s that a sketch may draw, one per row."""

    buckets: Int[Array, "hashes d"]
    signs: Int[Array, "signs d"]

    @property
    def size(self) -> int:
        return len(self.buckets) * len(self.signs)


class Moments(NamedTuple):
    """E Z and E Z^2 of a sketched inner product Z, as forms in the entries of X and Y."""

    mean: Int[Array, "u v"]
    mean_denominator: int
    second: Form

    @property
    def unbiased(self) -> bool:
        return bool(np.array_equal(self.mean, self.mean_denominator * np.eye(len(self.mean), dtype=np.int64)))

    @property
    def variance(self) -> Form:
        common = int(np.gcd.reduce(np.append(np.abs(self.mean).ravel(), self.mean_denominator)))
        return self.second - Form.square(self.mean // common, self.mean_denominator // common)


def all_buckets(d: int, m: int) -> Int[Array, "hashes d"]:
    """Every function from d indices to m buckets."""
    return np.stack(np.unravel_index(np.arange(m**d), (m,) * d), axis=-1).astype(np.int64)


def all_signs(d: int) -> Int[Array, "signs d"]:
    """Every function from d indices to -1 and +1."""
    return 1 - 2 * all_buckets(d, 2)


def no_signs(d: int) -> Int[Array, "1 d"]:
    """What is left when the sign hash is forgotten."""
    return np.ones((1, d), dtype=np.int64)


def every_hash(d: int, m: int) -> Hashes:
    return Hashes(all_buckets(d, m), all_signs(d))


def every_count_sketch(d: int, m: int) -> Iterator[CountSketch]:
    """The library's own CountSketch for every h and every s."""
    for h, s in product(all_buckets(d, m), all_signs(d)):
        yield CountSketch(h=h, s=s, m=m)


def count_sketch_moments(family: Hashes, m: int) -> Moments:
    """The Moments of <CS x, CS y>, for x and y with as many entries as the family has indices."""
    d = family.buckets.shape[1]
    (sign1, count1), (sign2, count2) = _tables(family, m, 2), _tables(family, m, 4)
    mean = (sign1 * count1[:, 0]).reshape(d, d)
    second = (sign2 * count2[:, 0]).reshape(d, d, d, d)  # i, k, i', k'
    form = Form.reduced(second.transpose(0, 2, 1, 3).reshape(d * d, d * d), family.size)
    return Moments(mean, family.size, form)


def tensor_sketch_moments(rows: Hashes, cols: Hashes, m: int) -> Moments:
    """The Moments of <TS X, TS Y>, for X and Y with one row and one column for each index of the two families."""
    d, d2 = rows.buckets.shape[1], cols.buckets.shape[1]
    size = rows.size * cols.size
    if size > SAFE:
        raise OverflowError(f"a sum over {size} sketches does not fit 63 bits")
    mean = _meet(_tables(rows, m, 2), _tables(cols, m, 2), m)
    mean = mean.reshape(d, d, d2, d2).transpose(0, 2, 1, 3).reshape(d * d2, d * d2)
    second = _meet(_tables(rows, m, 4), _tables(cols, m, 4), m)
    second = second.reshape(d, d, d, d, d2, d2, d2, d2)  # i, k, i', k', j, l, j', l'
    second = second.transpose(0, 4, 2, 6, 1, 5, 3, 7).reshape((d * d2) ** 2, (d * d2) ** 2)
    return Moments(mean, size, Form.reduced(second, size))


def moments_of_matrices(matrices: list[Int[Array, "m n"]]) -> Moments:
    """The Moments of <S x, S y> for sketches S given as matrices, all equally likely."""
    n = matrices[0].shape[1]
    gram = np.stack([t.T @ t for t in matrices]).reshape(-1, n * n)  # <T x, T y> = x^T gram y
    second = (gram.T @ gram).reshape(n, n, n, n).transpose(0, 2, 1, 3).reshape(n * n, n * n)
    return Moments(gram.sum(0).reshape(n, n), len(gram), Form.reduced(second, len(gram)))


Table = tuple[Int[Array, "tuples"], Int[Array, "tuples differences"]]


def _tables(family: Hashes, m: int, indices: int) -> Table:
    """For every tuple of 2 or 4 indices: the sum over all s of their signs' product, and over all h how often the
    differences h(i) - h(k) (and h(i') - h(k')) modulo m take each value. Left at 0 where the signs sum to 0."""
    buckets, signs = family
    d = buckets.shape[1]
    tuples = np.array(list(product(range(d), repeat=indices)))
    sign_sums = signs[:, tuples].prod(-1).sum(0)
    counts = np.zeros((len(tuples), m ** (indices // 2)), dtype=np.int64)
    gaps = (buckets[:, :, None] - buckets[:, None, :]) % m
    for t in np.flatnonzero(sign_sums):
        key = gaps[:, tuples[t, 0], tuples[t, 1]]
        if indices == 4:
            key = key * m + gaps[:, tuples[t, 2], tuples[t, 3]]
        counts[t] = np.bincount(key, minlength=counts.shape[1])
    return sign_sums, counts


def _meet(rows: Table, cols: Table, m: int) -> Int[Array, "row_tuples col_tuples"]:
    """Sum over all sketches of signs times [every row difference is minus its column difference]."""
    width = rows[1].shape[1]
    value = np.arange(width)
    opposite = -value % m if width == m else (-(value // m) % m) * m + (-value % m)
    out = np.zeros((len(rows[0]), len(cols[0])), dtype=np.int64)
    r, c = np.flatnonzero(rows[0]), np.flatnonzero(cols[0])
    left, right = rows[0][r, None] * rows[1][r], cols[0][c, None] * cols[1][c][:, opposite]
    out[np.ix_(r, c)] = left @ right.T
    return out
