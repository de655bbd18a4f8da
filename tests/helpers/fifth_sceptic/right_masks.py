"""Right though unusual: some entries are chosen, the others not looked at."""

from math import prod, sqrt

import numpy as np

from fifth_sceptic.base import Rows, buckets
from sdi.sketch import bits
from sdi.sketch.hashing import distinct


class UnevenMask(Rows):
    """Entries drawn with replacement, those at even places 1.5 times as often, each over its root probability.

    The variance is (sum a_i^2 / p_i - (sum a_i)^2) / m with a = x y: largest where one a_i is all, 1 / p_i - 1.
    """

    def __init__(self, shape, at):
        self._shape, self.at = tuple(shape), at
        weight = np.where(np.arange(self.count) % 2, 2, 3)
        self.p = weight / weight.sum()

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        ticket = np.repeat(np.arange(prod(shape)), np.where(np.arange(prod(shape)) % 2, 2, 3))
        return cls(shape, ticket[buckets(m, len(ticket), seed, name, "at")])

    @property
    def size(self):
        return len(self.at)

    def tables(self):
        return {"at": self.at}

    def rows(self, x):
        return x[:, self.at] / np.sqrt(self.size * self.p[self.at])

    def variance_factor(self):
        return (1 / self.p.min() - 1) / self.size


class StratifiedMask(Rows):
    """One entry from each of m strata as even as can be, over its root probability; apply_outer takes these only.

    The variance is sum over strata of w sum a_i^2 - (sum a_i)^2 with a = x y: at most w - 1, w the widest.
    """

    def __init__(self, shape, at, width):
        self._shape, self.at, self.width = tuple(shape), at, width

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        d = prod(shape)
        edges = np.arange(min(m, d) + 1) * d // min(m, d)
        width = np.diff(edges)
        within = (bits(len(width), seed, name, "at") % width.astype(np.uint64)).astype(np.int64)
        return cls(shape, edges[:-1] + within, width)

    @property
    def size(self):
        return len(self.at)

    def tables(self):
        return {"at": self.at}

    def rows(self, x):
        return x[:, self.at] * np.sqrt(self.width)

    def apply_outer(self, u, v):
        u, v = (side.astype(np.float64) for side in self._check_pair(u, v))
        i, j = np.divmod(self.at, v.shape[-1])
        return (u[..., i] * v[..., j]).sum(axis=-2) * np.sqrt(self.width)

    def variance_factor(self):
        return float(self.width.max() - 1)


class RowSample(Rows):
    """Whole rows of the matrix, chosen without replacement, over their root probability; a vector's rows are entries.

    As a mask's: the variance is (d - k) / (k (d - 1)) (d sum b_i^2 - (sum b_i)^2), b_i the product of rows i.
    """

    def __init__(self, shape, at):
        self._shape, self.at = tuple(shape), at

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        k = m // prod(shape[1:])
        if k < 1:
            raise ValueError(f"m must be at least the length of a row, {prod(shape[1:])}, got {m}")
        return cls(shape, distinct(min(k, shape[0]), shape[0], seed, name, "rows"))

    @property
    def size(self):
        return len(self.at) * prod(self._shape[1:])

    def tables(self):
        return {"at": self.at}

    def rows(self, x):
        X = x.reshape(len(x), self._shape[0], -1)
        return X[:, self.at].reshape(len(x), self.size) * sqrt(self._shape[0] / len(self.at))

    def variance_factor(self):
        return self._shape[0] / len(self.at) - 1


NAMED = [UnevenMask, StratifiedMask, RowSample]
SKETCHES = [(cls.__name__, cls, "right") for cls in NAMED]
