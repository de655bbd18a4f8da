"""Right sketches to derive from: Count (signed buckets of the flattened parameter), Dense (a table of floats), Mask."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from sdi.sketch.hashing import draw_buckets, draw_signs
from sdi.sketch.protocol import LinearSketch, check_m, check_shape
from sdi.sketch.shipped.count_and_tensor import scatter
from sdi.sketch.variance_factor import tensor_sketch_factor

MOST_ENTRIES = 1 << 23  # of a dense table


class Flat(LinearSketch):
    """A sketch of the flattened parameter: a subclass says what `sums` of rows (n, D) are."""

    _shape: tuple
    m: int

    @property
    def shape(self):
        return self._shape

    @property
    def size(self):
        return self.m

    def rows(self, x):
        """Arrays (..., *shape) as (n, D)."""
        return x.reshape(-1 if x.size else 0, prod(self.shape))

    def apply(self, x):
        x = self._check(x)
        lead = x.shape[: x.ndim - len(self.shape)]
        return self.answer(self.sums(self.rows(x)), lead)

    def answer(self, y, lead):
        """Numbers (n, size) with the leading axes of the argument."""
        return y.reshape(*lead, self.size)

    def variance_factor(self):
        return 2 / self.m


class Count(Flat):
    """CountSketch of the flattened parameter, from the hooks `buckets` and `signs`."""

    factor = 1.0

    def __init__(self, shape, m, h, s):
        self._shape, self.m, self.h, self.s = tuple(shape), m, h, s

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        shape = check_shape(shape, cls.__name__)
        return cls(shape, int(m), cls.buckets(shape, m, seed, name), cls.signs(shape, m, seed, name))

    @classmethod
    def buckets(cls, shape, m, seed, name):
        """The bucket of each entry."""
        return draw_buckets(prod(shape), m, "table", seed, name)

    @classmethod
    def signs(cls, shape, m, seed, name):
        """The sign of each entry."""
        return draw_signs(prod(shape), m, "table", seed, name)

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, m, tables["h"], tables["s"])

    def tables(self):
        return {"h": self.h, "s": self.s}

    def sums(self, rows):
        """Signed sums of rows (n, D), in double precision, rounded to their dtype; whole numbers stay whole."""
        if rows.dtype.kind in "iub":
            y = scatter(rows, self.h, self.s, self.m)
            return y if self.factor == 1 else y * self.factor
        if rows.dtype.kind != "f":
            return scatter(rows, self.h, self.s, self.m) * self.factor
        wide = scatter(rows.astype(np.float64), self.h, self.s, self.m) * self.factor
        with np.errstate(over="ignore"):
            return wide.astype(rows.dtype)


class Tensor(Count):
    """TensorSketch, written out: bucket h(i) + h'(j) mod m and sign s(i) s'(j); a vector has one column."""

    @classmethod
    def sides(cls, draw_one, shape, m, seed, name):
        """One table for the rows and one for the columns."""
        return [draw_one(d, m, "table", seed, name, side) for d, side in zip(shape, ("rows", "cols"), strict=True)]

    @classmethod
    def buckets(cls, shape, m, seed, name):
        if len(shape) == 1:
            return super().buckets(shape, m, seed, name)
        first, second = cls.sides(draw_buckets, shape, m, seed, name)
        return ((first[:, None] + second[None, :]) % m).ravel()

    @classmethod
    def signs(cls, shape, m, seed, name):
        if len(shape) == 1:
            return super().signs(shape, m, seed, name)
        first, second = cls.sides(draw_signs, shape, m, seed, name)
        return (first[:, None] * second[None, :]).ravel()

    def variance_factor(self):
        return tensor_sketch_factor(self.m) if len(self.shape) == 2 else 2 / self.m


class Dense(Flat):
    """S = table / sqrt(m), with entries from the hook `entries`: mean 0, variance 1."""

    def __init__(self, shape, table):
        self._shape, self.m, self.table = tuple(shape), len(table), table

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        check_m(m)
        shape = check_shape(shape, cls.__name__)
        if m * prod(shape) > MOST_ENTRIES:
            raise ValueError(f"a table of {m} x {prod(shape)} entries is over {MOST_ENTRIES}: use a smaller m")
        return cls(shape, cls.entries(m * prod(shape), shape, m, seed, name).reshape(m, prod(shape)))

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        """All entries of the table, (count,)."""
        raise NotImplementedError

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, tables["table"].reshape(m, -1))

    def tables(self):
        return {"table": self.table}

    @property
    def scale(self):
        """What the table is multiplied with."""
        return self.m**-0.5

    def sums(self, rows):
        """Products of rows (n, D) with the table, in double precision, rounded to their dtype."""
        kind = rows.dtype if rows.dtype.kind == "f" else np.dtype(np.float64)
        with np.errstate(over="ignore"):
            return (rows.astype(np.float64) @ self.table.T.astype(np.float64) * self.scale).astype(kind)


class Mask(Flat):
    """Some entries, times sqrt(D / m). A subclass says in `draw` which."""

    def __init__(self, shape, index):
        self._shape, self.m, self.index = tuple(shape), len(index), index

    @classmethod
    def of_tables(cls, shape, m, tables):
        return cls(shape, tables["index"])

    def tables(self):
        return {"index": self.index}

    def sums(self, rows):
        return rows[:, self.index] * sqrt(prod(self.shape) / self.m)

    def variance_factor(self):
        return (prod(self.shape) - self.m) / self.m


def chance(words):
    """Uniform numbers in [0, 1) of 64-bit words."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
