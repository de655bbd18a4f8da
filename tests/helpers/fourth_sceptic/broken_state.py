"""Broken: state that is kept between calls, and arguments that are written to."""

from __future__ import annotations

from math import prod

import numpy as np

from fourth_sceptic.base import Count, Dense, Tensor
from sdi.sketch.hashing import draw_signs, sign_bits


class StaleById(Count):
    """The last argument is remembered, by identity: a gradient buffer that is written anew gets the old answer."""

    last = (None, None)

    def apply(self, x):
        if self.last[0] is not x:
            self.last = (x, super().apply(x))
        return self.last[1].copy()


class OuterAnswerIsBuffer(Count):
    """apply_outer gives the same array every time: the answer before is overwritten."""

    buffer = None

    def apply_outer(self, u, v):
        y = super().apply_outer(u, v)
        if self.buffer is None or self.buffer.shape != y.shape or self.buffer.dtype != y.dtype:
            self.buffer = np.empty_like(y)
        self.buffer[...] = y
        return self.buffer


class OuterScalesTable(Dense):
    """apply_outer multiplies the table by the scale, in place, and apply then scales a second time."""

    folded = False

    @classmethod
    def entries(cls, count, shape, m, seed, name):
        return sign_bits(count, seed, name, "s").astype(np.float32)

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if not self.folded:
            self.table *= np.float32(self.scale)
            self.folded = True
        return super().apply_outer(u, v) / self.scale


class InPlaceLargeBatch(Count):
    """From a megabyte on, the signs are multiplied into the argument, to save memory."""

    def sums(self, rows):
        if rows.nbytes < 1 << 20 or rows.dtype.kind != "f" or not rows.flags.writeable:
            return super().sums(rows)
        rows *= self.s
        ones = np.ones_like(self.s)
        return Count(self.shape, self.m, self.h, ones).sums(rows)


class InPlaceAndBack(Count):
    """The signs are multiplied into the argument and taken out afterwards: one that is read-only is an error."""

    def sums(self, rows):
        if rows.dtype.kind != "f":
            return super().sums(rows)
        np.multiply(rows, self.s, out=rows)
        y = Count(self.shape, self.m, self.h, np.ones_like(self.s)).sums(rows)
        np.multiply(rows, self.s, out=rows)
        return y


class OuterMutatesU(Tensor):
    """apply_outer multiplies the signs of the rows into u itself."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        one = super().draw(shape, m, seed=seed, name=name)
        if len(shape) == 2:
            one.out = draw_signs(shape[0], m, "table", seed, name, "rows")
        return one

    @classmethod
    def of_tables(cls, shape, m, tables):
        one = super().of_tables(shape, m, tables)
        if len(shape) == 2:
            one.out = one.s.reshape(shape)[:, 0]
        return one

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        if len(self.shape) == 1 or u.dtype.kind != "f" or not u.flags.writeable:
            return super().apply_outer(u, v)
        u *= self.out
        rest = self.s * np.repeat(self.out, prod(self.shape[1:]))
        return Count(self.shape, self.m, self.h, rest).apply_outer(u, v)
