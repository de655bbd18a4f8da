"""What can go wrong with the randomness of a sketch: one fault to a class, in its docstring."""

from __future__ import annotations

import numpy as np
from good_sketch import Good

from sdi.sketch.hashing import bits


class BiasedSigns(Good):
    """A sign hash that is +1 three times out of four."""

    @classmethod
    def signs(cls, d, seed, name):
        return np.where(bits(d, seed, name, "s") % np.uint64(4) == 0, -1, 1)

    def variance_factor(self):
        return 16 / self.m  # allows for it: the bias is the only fault


class NoSigns(Good):
    """Buckets without signs."""

    @classmethod
    def signs(cls, d, seed, name):
        return np.ones(d, dtype=int)


class SharedBuckets(Good):
    """All tensors' buckets collide alike: the bucket hash does not know the parameter's name."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, "")


class HiddenSharing(Good):
    """Two parameters' sketches are one, up to a rotation of the buckets that makes their tables differ."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return (super().buckets(d, m, seed, "") + int(bits(1, seed, name)[0] % np.uint64(m))) % m

    @classmethod
    def signs(cls, d, seed, name):
        return super().signs(d, seed, "") * (1 - 2 * int(bits(1, seed, name, "s")[0] % np.uint64(2)))


class IgnoresDigits(Good):
    """Layers that differ in their number only share one sketch."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name="".join(c for c in name if not c.isdigit()))


class ReadsSixLetters(Good):
    """Names that begin alike share one sketch."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=name[:6])


class HidesSharedDigits(Good):
    """Layers share one sketch, up to a rotation of the buckets that makes their tables differ."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        without = "".join(c for c in name if not c.isdigit())
        return (super().buckets(d, m, seed, without) + int(bits(1, seed, name)[0] % np.uint64(m))) % m

    @classmethod
    def signs(cls, d, seed, name):
        without = "".join(c for c in name if not c.isdigit())
        return super().signs(d, seed, without) * (1 - 2 * int(bits(1, seed, name, "s")[0] % np.uint64(2)))


class RemembersDraws(Good):
    """One generator for all draws."""

    generator = np.random.default_rng(0)

    @classmethod
    def signs(cls, d, seed, name):
        return cls.generator.choice([-1, 1], size=d)


class SaltedHash(Good):
    """Python's hash of a string, which is another one in every process."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, str(hash(name)))


class NumbersTheNames(Good):
    """Parameters are told apart by the order in which they were first seen."""

    known: list[str] = []  # noqa: RUF012

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        if name not in cls.known:
            cls.known.append(name)
        return super().draw(shape, m, seed=seed, name=str(cls.known.index(name)))


class IgnoresSeed(Good):
    """Every seed gives the same sketch."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=0, name=name)


class SevenSeeds(Good):
    """Only seven different sketches."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed % 7, name=name)


class OneSeedForBiases(Good):
    """A bias has the same sketch for every seed."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=0 if name.endswith("bias") else seed, name=name)


class RepeatsAfter64(Good):
    """The hash has a period of 64 entries: one entry and the next but 63 always fall together."""

    @classmethod
    def buckets(cls, d, m, seed, name):
        return super().buckets(d, m, seed, name)[np.arange(d) % 64]

    @classmethod
    def signs(cls, d, seed, name):
        return super().signs(d, seed, name)[np.arange(d) % 64]


class NoSignsIfSquare(Good):
    """A square matrix gets buckets without signs."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        drawn = super().draw(shape, m, seed=seed, name=name)
        square = len(shape) == 2 and shape[0] == shape[1]
        return cls(drawn.of, m, drawn.h, drawn.s**2) if square else drawn
