"""Sketches of a sceptic who had not read the checks: paths and twins that disagree."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np
from sceptic_bases import Count, CountTwin, Dense, Tensor, WithTwin, broken, floats


@broken("paths", "apply_outer takes the mean over tokens, not the sum.")
class TokensAveraged(Tensor):
    def join(self, a, b):
        return super().join(a, b) / max(a.shape[-2], 1)


@broken("paths", "Beyond 32 tokens, a last partial chunk of tokens is left out.")
class TokensDropped(Tensor):
    def join(self, a, b):
        T = a.shape[-2] if a.shape[-2] <= 32 else a.shape[-2] // 32 * 32
        return super().join(a[..., :T, :], b[..., :T, :])


@broken("paths", "Chunks of 100 tokens overlap by one: every hundredth token counts twice.")
class TokensDoubled(Tensor):
    def join(self, a, b):
        T = a.shape[-2]
        parts = [
            super(TokensDoubled, self).join(a[..., i : i + 101, :], b[..., i : i + 101, :])
            for i in range(0, max(T, 1), 100)
        ]
        return sum(parts)


@broken("paths", "The first token is left out (it is 'always a begin-of-text') where there are several.")
class FirstTokenSkipped(Tensor):
    def join(self, a, b):
        return super().join(a[..., 1:, :], b[..., 1:, :]) if a.shape[-2] > 1 else super().join(a, b)


@broken("paths", "Tokens are summed before the product: outer(sum u, sum v) is right for one token only.")
class SumsBeforeProduct(Tensor):
    def join(self, a, b):
        return super().join(a.sum(axis=-2, keepdims=True), b.sum(axis=-2, keepdims=True))


@broken("paths", "apply_outer forms the transposed matrix and reshapes it.")
class OuterTransposed(Count):
    def apply_outer(self, u, v):
        u, v = self._check_pair(u, v)
        return self.apply((v.swapaxes(-1, -2) @ u).reshape(*u.shape[:-2], *self.shape))


@broken("paths", "The product of transforms is not wrapped around: what passes m is lost.")
class NotWrapped(Tensor):
    def join(self, a, b):
        n = 2 * self.m
        return np.fft.irfft((np.fft.rfft(a, n=n) * np.fft.rfft(b, n=n)).sum(axis=-2), n=n)[..., : self.m]


@broken("paths", "apply_outer works in complex64, apply in double precision.")
class OuterInSingle(Tensor):
    def join(self, a, b):
        spectrum = np.fft.rfft(a).astype(np.complex64) * np.fft.rfft(b).astype(np.complex64)
        return np.fft.irfft(spectrum.sum(axis=-2), n=self.m)


@broken("paths", "Tokens whose u is small next to the largest are skipped, to save time.")
class SmallTokensSkipped(Tensor):
    def apply_outer(self, u, v):
        u, v = (floats(side) for side in self._check_pair(u, v))
        norm = np.linalg.norm(u, axis=-1, keepdims=True)
        u = np.where(norm < 1e-3 * norm.max(axis=-2, keepdims=True, initial=0), 0, u)
        return super().apply_outer(u, v)


@broken("paths", "dense gives the map without its scale.")
class DenseUnscaled(Dense):
    def dense(self):
        return self.table


@broken("paths", "Padding tokens (v = 0 in the first entry) are masked out, but real tokens may have such a zero, too.")
class ZerosArePadding(Tensor):
    def apply_outer(self, u, v):
        v = np.asarray(v)
        return super().apply_outer(np.asarray(u) * (v[..., :1] != 0), v)


class UnscaledTwin(CountTwin):
    def apply(self, G):
        return super().apply(G) * sqrt(2)


@broken("twin", "The twin on the device has another scale.")
class TwinScaled(WithTwin):
    twin = UnscaledTwin


class TransposedTwin(CountTwin):
    def apply(self, G):
        return super().apply(G.transpose(1, 2).contiguous() if G.ndim == 3 else G)


@broken("twin", "The twin flattens matrices column by column, apply row by row.")
class TwinTransposed(WithTwin):
    twin = TransposedTwin


class SingleTwin(CountTwin):
    def apply(self, G):
        return super().apply(G.to(self.s.dtype).float().to(self.dtype))


@broken("twin", "The twin works in single precision, whatever dtype it was asked for.")
class TwinInSingle(WithTwin):
    twin = SingleTwin


class OwnTwin(CountTwin):
    def __init__(self, sketch, device, dtype):
        import torch

        super().__init__(sketch, device, dtype)
        rng = torch.Generator().manual_seed(0)
        self.s = (1 - 2 * torch.randint(0, 2, (len(self.h),), generator=rng)).to(dtype)


@broken("twin", "The twin draws signs of its own: features of two backends do not match.")
class TwinOfItsOwn(WithTwin):
    twin = OwnTwin


class WritingTwin(CountTwin):
    def apply(self, G):
        f = G.reshape(len(G), prod(self.sketch.shape)).mul_(self.s)
        return f.new_zeros(len(G), self.m).index_add_(1, self.h, f)


@broken("twin", "The twin multiplies signs into the gradient it was given.")
class TwinWrites(WithTwin):
    twin = WritingTwin


class AssigningTwin(CountTwin):
    def apply_rows(self, index, v):
        G = v.new_zeros(len(v), *self.sketch.shape)
        for k in range(len(v)):
            G[k, index[k]] = v[k]
        return self.apply(G)


@broken("twin", "The twin's row path assigns rows in place of adding them: of a token that comes twice, one counts.")
class TwinRowsAssigned(WithTwin):
    twin = AssigningTwin


class OuterTwin(CountTwin):
    def apply_outer(self, u, v):
        return self.apply((u.transpose(1, 2) @ v).reshape(len(u), *self.sketch.shape))


class FirstTokensTwin(OuterTwin):
    def apply_outer(self, u, v):
        return super().apply_outer(u[:, :128], v[:, :128])


@broken("twin", "The twin reads at most 128 tokens.")
class TwinFewTokens(WithTwin):
    twin = FirstTokensTwin


class MeanTwin(OuterTwin):
    def apply_outer(self, u, v):
        return super().apply_outer(u, v) / u.shape[1]


@broken("twin", "The twin takes the mean over tokens.")
class TwinAverages(WithTwin):
    twin = MeanTwin


class SumTwin(OuterTwin):
    def apply_outer(self, u, v):
        return super().apply_outer(u, v).sum(0, keepdim=True).expand(len(u), -1) / len(u)


@broken("twin", "The twin's apply_outer sums over the batch: all examples get the batch's mean.")
class TwinMixesExamples(WithTwin):
    twin = SumTwin


class WritingOuterTwin(OuterTwin):
    def apply_outer(self, u, v):
        return super().apply_outer(u.mul_(2), v) / 2


@broken("twin", "The twin's apply_outer doubles the caller's u in place, which the bias still needs.")
class TwinWritesTokens(WithTwin):
    twin = WritingOuterTwin
