"""Broken: `apply_outer`, the twin on torch, and lists of all draws."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np
import torch

from new_sceptic.bases import Entries, Sides


class MeanOfTokens(Entries):
    """Tokens are averaged."""

    def apply_outer(self, u, v):
        return super().apply_outer(u, v) / max(np.shape(u)[-2], 1)


class MeanTimesTokens(Entries):
    """The mean, times their number: NaN for none."""

    def apply_outer(self, u, v):
        tokens = np.shape(u)[-2]
        with np.errstate(all="ignore"):
            return super().apply_outer(u, v) / np.float64(tokens) * tokens


class TokensByTwos(Entries):
    """Two tokens at a time: the last of an odd number of them, from three on, is lost."""

    def apply_outer(self, u, v):
        u, v = np.asarray(u), np.asarray(v)
        tokens = u.shape[-2] if u.shape[-2] < 3 else u.shape[-2] // 2 * 2
        return super().apply_outer(u[..., :tokens, :], v[..., :tokens, :])


class BatchOfPairs(Entries):
    """One axis of examples, neither none nor two."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return self.apply(np.einsum("ntd,nte->nde", u, v).reshape(len(u), *self.shape))


class Fourier(Sides):
    """`apply_outer` by FFT; what the next ones break."""

    def ends(self, u, v):
        u, v = self._check_pair(u, v)
        return [
            np.fft.rfft((side * s) @ (h[:, None] == np.arange(self.m)), axis=-1)
            for side, (h, s) in ((u, self.rows), (v, self.cols))
        ]

    def apply_outer(self, u, v):
        a, b = self.ends(u, v)
        return np.fft.irfft((a * b).sum(axis=-2), n=self.m)


class Correlated(Fourier):
    """The conjugate of one side: buckets are subtracted where `apply` adds them."""

    def apply_outer(self, u, v):
        a, b = self.ends(u, v)
        return np.fft.irfft((a * b.conj()).sum(axis=-2), n=self.m)


class EvenTransform(Fourier):
    """The length of the transform is not passed on: at odd m it is one too small, and zeros are added."""

    def apply_outer(self, u, v):
        a, b = self.ends(u, v)
        y = np.fft.irfft((a * b).sum(axis=-2)) if self.m > 1 else np.fft.irfft((a * b).sum(axis=-2), n=1)
        return np.concatenate([y, np.zeros((*y.shape[:-1], self.m - y.shape[-1]))], axis=-1)


class SingleTransform(Fourier):
    """Transforms in single precision."""

    def apply_outer(self, u, v):
        a, b = (end.astype(np.complex64) for end in self.ends(u, v))
        return np.fft.irfft((a * b).sum(axis=-2), n=self.m).astype(np.float64)


class NotCircular(Sides):
    """A convolution that is cut off at m, for one token at a time."""

    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        x = np.swapaxes(u, -1, -2) @ v
        keep = (self.rows[0][:, None] + self.cols[0][None]) < self.m
        return self.apply((x * keep).reshape(*u.shape[:-2], *self.shape))


class AbsoluteOuter(Entries):
    """`apply_outer` leaves the signs of a single token's v away."""

    def apply_outer(self, u, v):
        return super().apply_outer(u, np.abs(v) if np.shape(v)[-2] == 1 else v)


class Twin:
    """What `to_torch` gives: right."""

    def __init__(self, sketch, device, dtype):
        self.sketch, self.dtype, self.shape = sketch, dtype, sketch.shape
        self.h = torch.as_tensor(sketch.h, device=device)
        self.s = torch.as_tensor(sketch.s, device=device).to(dtype)

    def apply(self, G):
        flat = G.reshape(len(G), prod(self.shape))
        return flat.new_zeros(len(G), self.sketch.m).index_add_(1, self.h, flat * self.s.to(flat.dtype))

    def apply_outer(self, u, v):
        return self.apply(torch.einsum("ntd,nte->nde", u, v))


def twin_of(cls):
    """A twin class as `to_torch` of a sketch of entries."""

    def to_torch(self, device, dtype):
        return cls(self, device, dtype)

    return to_torch


class ByColumnsTwin(Twin):
    def apply(self, G):
        return super().apply(G.swapaxes(-1, -2) if len(self.shape) == 2 else G)


class ByColumns(Entries):
    """The twin takes a matrix by columns."""

    to_torch = twin_of(ByColumnsTwin)


class LastTokenTwin(Twin):
    def apply_outer(self, u, v):
        tokens = max(u.shape[1] - 1, 1) if u.shape[1] > 8 else u.shape[1]
        return super().apply_outer(u[:, :tokens], v[:, :tokens])


class LastToken(Entries):
    """The twin loses the last of more than eight tokens."""

    to_torch = twin_of(LastTokenTwin)


class SingleTwin(Twin):
    def apply(self, G):
        return super().apply(G.to(torch.float32)).to(G.dtype)


class SinglePrecisionTwin(Entries):
    """The twin works in single precision, whatever is asked for."""

    to_torch = twin_of(SingleTwin)


class InPlaceTwin(Twin):
    def apply(self, G):
        flat = G.view(len(G), -1).mul_(self.s) if G.is_contiguous() else G.reshape(len(G), -1) * self.s
        return flat.new_zeros(len(G), self.sketch.m).index_add_(1, self.h, flat)


class InPlace(Entries):
    """The twin writes into its argument."""

    to_torch = twin_of(InPlaceTwin)


class ViewTwin(Twin):
    def apply(self, G):
        return super().apply(G.view(len(G), -1))


class NeedsContiguous(Entries):
    """The twin fails for tensors that are not contiguous."""

    to_torch = twin_of(ViewTwin)


class AllTablesOnce(Entries):
    """Lists every draw, with probabilities that leave the signs out."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        for h, s in product(product(range(m), repeat=d), product((-1, 1), repeat=d)):
            yield Fraction(1, m**d), cls(shape, m, np.array(h), np.array(s))


class ListsSignsOnly(Entries):
    """Lists every sign, with buckets all 0 ... m - 1 in turn."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        for s in product((-1, 1), repeat=d):
            yield Fraction(1, 2**d), cls(shape, m, np.arange(d) % m, np.array(s))


class ListsDistinct(Entries):
    """Lists only draws in which no two entries share a bucket, where there are such."""

    @classmethod
    def enumerate_all(cls, shape, m):
        d = prod(shape)
        every = [h for h in product(range(m), repeat=d) if len(set(h)) == min(d, m)]
        for h, s in product(every, product((-1, 1), repeat=d)):
            yield Fraction(1, len(every) * 2**d), cls(shape, m, np.array(h), np.array(s))
