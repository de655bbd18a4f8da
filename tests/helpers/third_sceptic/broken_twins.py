"""Broken: what to_torch gives differs from apply, or enumerate_all lists other draws than draw makes."""

from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from third_sceptic.base import Count
from third_sceptic.broken_mean import SlightlyUnfairSigns


class Twin:
    """The right twin of Count: a signed index_add on the device, by places `h` and signs `s`."""

    def __init__(self, sketch, device, dtype):
        import torch

        self.torch, self.shape, self.m = torch, sketch.shape, sketch.size
        self.h = torch.as_tensor(np.asarray(sketch.t["h"], dtype=np.int64), device=device)
        self.s = torch.as_tensor(np.asarray(sketch.t["s"], dtype=np.float64), device=device).to(dtype)

    def apply(self, G):
        flat = G.reshape(len(G), prod(self.shape))
        return flat.new_zeros(len(G), self.m).index_add_(1, self.h, flat * self.s.to(G.dtype))

    def apply_outer(self, u, v):
        return self.apply((u.transpose(-1, -2) @ v).reshape(len(u), *self.shape))


class WithTwin(Count):
    """Count, with the twin that `twin` names."""

    twin = Twin

    def to_torch(self, device, dtype):
        return self.twin(self, device, dtype)


class TwinByShape(WithTwin):
    """Twins are remembered by shape and m alone: the second layer of a shape gets the tables of the first."""

    made: dict = {}  # noqa: RUF012

    def to_torch(self, device, dtype):
        return self.made.setdefault((self.shape, self.m, dtype), Twin(self, device, dtype))


class TwinOneBuffer(WithTwin):
    """The twin's answers of one batch size are one tensor: the next call overwrites the last."""

    class twin(Twin):
        buffers = None

        def apply(self, G):
            y, self.buffers = super().apply(G), self.buffers or {}
            return self.buffers.setdefault((len(G), G.dtype), y).copy_(y)


class TwinWrites(WithTwin):
    """The twin multiplies gradients by the signs in place: the user's gradients are changed."""

    class twin(Twin):
        def apply(self, G):
            flat = G.view(len(G), -1) if G.is_contiguous() else G.reshape(len(G), -1).clone()
            flat.mul_(self.s.to(G.dtype))
            return flat.new_zeros(len(G), self.m).index_add_(1, self.h, flat)


class TwinOfStorage(WithTwin):
    """The twin reads gradients as if rows lay one after the other in memory: transposed ones come out permuted."""

    class twin(Twin):
        def apply(self, G):
            d = prod(self.shape)
            return super().apply(self.torch.as_strided(G, (len(G), d), (d, 1)))


class TwinSqueezes(WithTwin):
    """The twin squeezes: a batch of one comes out as (m,), not (1, m)."""

    class twin(Twin):
        def apply(self, G):
            return super().apply(G).squeeze()


class TwinOfInt16(WithTwin):
    """The twin's order of entries is int16: beyond 32,767 entries places wrap, and other entries are read."""

    class twin(Twin):
        def apply(self, G):
            d = prod(self.shape)
            order = self.torch.as_tensor(np.arange(d).astype(np.int16).astype(np.int64) % d, device=G.device)
            return super().apply(G.reshape(len(G), d)[:, order])


class TwinOf256Tokens(WithTwin):
    """The twin's apply_outer goes in blocks of 256 tokens and drops the last, partial one if there is a whole one."""

    class twin(Twin):
        def apply_outer(self, u, v):
            tokens = u.shape[1] // 256 * 256 or u.shape[1]
            return super().apply_outer(u[:, :tokens], v[:, :tokens])


class TwinWithoutNan(WithTwin):
    """The twin replaces NaN and infinity by numbers: on the fast backend a diverged example looks finite."""

    class twin(Twin):
        def apply(self, G):
            return super().apply(self.torch.nan_to_num(G))


class TwinInHalf(WithTwin):
    """The twin rounds float32 gradients to bfloat16 first: three digits are left; float64 is right."""

    class twin(Twin):
        def apply(self, G):
            return super().apply(G.bfloat16().to(G.dtype) if G.dtype == self.torch.float32 else G)


class TwinMean(WithTwin):
    """The twin's apply_outer is a mean over tokens, not a sum, if they are more than 100: 'normalised by length'."""

    class twin(Twin):
        def apply_outer(self, u, v):
            return super().apply_outer(u, v) / (u.shape[1] if u.shape[1] > 100 else 1)


class TwinOfLargeBatches(WithTwin):
    """The twin hashes more than 2,000 gradients at once with tables rolled by one: two halves of a store differ."""

    class twin(Twin):
        def apply(self, G):
            if len(G) <= 2000:
                return super().apply(G)
            flat = G.reshape(len(G), -1) * self.s.to(G.dtype)
            return flat.new_zeros(len(G), self.m).index_add_(1, self.h.roll(1), flat)


class TwinFromItsSeed(WithTwin):
    """The twin of a sketch with more than 2,000 entries draws its signs anew, from the shape, to save the transfer."""

    class twin(Twin):
        def __init__(self, sketch, device, dtype):
            super().__init__(sketch, device, dtype)
            if prod(self.shape) > 2000:
                self.s = self.torch.as_tensor(sketch.signs(prod(self.shape), "twin"), device=device).to(dtype)


def every(cls, shape, m, signs, one=None):
    """Every table of buckets with every one of these signs, all with probability `one` or equally likely."""
    d = prod(shape)
    one = one or Fraction(1, (m * len(signs)) ** d)
    for h, s in product(product(range(m), repeat=d), product(signs, repeat=d)):
        yield one, cls(shape, m, {"h": np.array(h), "s": np.array(s)})


class ListsPlusOnly(Count):
    """enumerate_all lists one half of the draws, those whose first sign is +, at twice their probability."""

    @classmethod
    def enumerate_all(cls, shape, m):
        for p, sketch in every(cls, shape, m, (-1, 1)):
            if sketch.t["s"][0] == 1:
                yield 2 * p, sketch


class ListsTheIdeal(SlightlyUnfairSigns):
    """enumerate_all lists fair signs, draw draws 45% of -1: an exact answer that is not about this sketch."""

    @classmethod
    def enumerate_all(cls, shape, m):
        yield from every(cls, shape, m, (-1, 1))


class ListsHalf(Count):
    """enumerate_all gives probabilities that add up to 1/2."""

    @classmethod
    def enumerate_all(cls, shape, m):
        for p, sketch in every(cls, shape, m, (-1, 1)):
            yield p / 2, sketch


class ListsLessBuckets(Count):
    """draw never uses the last bucket; enumerate_all says that it does. The variance is m / (m - 1) times 2 / m."""

    @classmethod
    def buckets(cls, d, m, *words):
        return super().buckets(d, max(m - 1, 1), *words)

    @classmethod
    def enumerate_all(cls, shape, m):
        yield from every(cls, shape, m, (-1, 1))
