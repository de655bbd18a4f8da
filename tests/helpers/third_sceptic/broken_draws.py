"""Broken: draws that share randomness between names or seeds, or depend on more than shape, m, seed and name."""

import re
import zlib
from math import prod

import numpy as np

from sdi.sketch import bits
from third_sceptic.base import Count, Dense, normal, signs_of


class NameInOneByte(Count):
    """The name is reduced to 8 bits of a checksum: among 20 parameters, two share all tables with probability 0.53."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, zlib.crc32(name.encode()) & 0xFF)


class SumOfLetters(Count):
    """The name counts by the sum of its letters: 'layers.12' and 'layers.21', 'h.0.1' and 'h.1.0' share all tables."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, sum(name.encode()))


class OneDigitOfLayers(Count):
    """The layer's number is read as one digit: layers 1, 10, 11, ..., 19 share all tables."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, re.sub(r"\d+", lambda found: found[0][0], name))


class FirstNumberOnly(Count):
    """Only the first number of a name counts: 'blocks.0.layers.3.w' and 'blocks.0.layers.5.w' share all tables."""

    @classmethod
    def words(cls, shape, seed, name):
        numbers = re.findall(r"\d+", name)
        return (seed, re.sub(r"\d+", "", name), *numbers[:1])


class FortyLetters(Count):
    """Names end after 40 letters: 'model.decoder.layers.0.self_attn.q_proj.weight' and its bias share all tables."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, name[:40])


class LastTwoParts(Count):
    """Only the last two parts of a name count: 'layers.0.mlp.weight' and 'layers.1.mlp.weight' share all tables."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, *name.split(".")[-2:])


class SeedModulo1000(Count):
    """The seed counts modulo 1,000: seeds 0, 1000 and 2000 give one sketch, so an average over them is none."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed % 1000, name)


class SeedInThirtyTwoBits(Count):
    """The seed counts modulo 2^32: seeds made of a time in nanoseconds and such share sketches 2^32 apart."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed & 0xFFFFFFFF, name)


class StreamFromSeed(Count):
    """One long stream for each name, begun at place seed % 4096: seed 1 is seed 0 shifted by one entry, and flat
    arrays have nearly the same error under both."""

    @classmethod
    def make(cls, shape, m, seed, name):
        tables = super().make((prod(shape) + 4096,), m, "stream", name)
        start = seed % 4096
        return {k: t[start : start + prod(shape)] for k, t in tables.items()}


class RolledByName(Count):
    """One pair of tables for each seed, rolled by a number made of the name: flat arrays err alike in all layers."""

    @classmethod
    def make(cls, shape, m, seed, name):
        by = zlib.crc32(name.encode()) % prod(shape)
        return {k: np.roll(t, by) for k, t in super().make(shape, m, seed, "all").items()}


class NegatedByName(Count):
    """Buckets are shifted and signs negated by the name: tables differ, but <S x, S y> is the same in all layers."""

    @classmethod
    def make(cls, shape, m, seed, name):
        shift, negate = (int(k) for k in bits(2, name))
        tables = super().make(shape, m, seed, "all")
        return {"h": (tables["h"] + shift % m) % m, "s": tables["s"] * (-1) ** (negate % 2)}


class ReflectedByName(Dense):
    """One Gaussian matrix for each seed, times a reflection of the m numbers made of the name: layers err alike."""

    @classmethod
    def matrix(cls, m, d, seed, name):
        table, axis = normal(m * d, seed, d).reshape(m, d), normal(m, name, "axis")
        return table - 2 * np.outer(axis, axis @ table) / (axis @ axis)


class BiasIsFirstColumn(Count):
    """A vector uses the first column of its module's weight, found by the name without its end: the errors of a weight
    and of its bias go together."""

    @classmethod
    def make(cls, shape, m, seed, name):
        stem = name.rpartition(".")[0] or name
        columns = [super().make(shape[:1], m, seed, stem)]
        for j in range(1, prod(shape[1:])):
            columns.append(super().make(shape[:1], m, seed, f"{name}|{j}"))
        return {k: np.stack([c[k] for c in columns], axis=1).ravel() for k in ("h", "s")}


class OrderOfASet(Count):
    """The letters of the name are taken in the order of a set: another one in every process."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, name, "".join(set(name)))


class NumberedNames(Count):
    """Names are numbered as they come and the number is the key: it depends on which parameter was drawn first."""

    seen: dict = {}  # noqa: RUF012

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, cls.seen.setdefault(name, len(cls.seen)))


class RememberedGenerator(Count):
    """One generator for each seed; what it gave to a name is remembered, so that drawing again repeats. The first order
    of names decides."""

    generators: dict = {}  # noqa: RUF012
    given: dict = {}  # noqa: RUF012

    @classmethod
    def words(cls, shape, seed, name):
        generator = cls.generators.setdefault(seed, np.random.default_rng(abs(seed)))
        if (seed, name) not in cls.given:
            cls.given[seed, name] = int(generator.integers(1 << 62))
        return (cls.given[seed, name],)


class SeedOfTorch(Count):
    """torch.initial_seed() is mixed in: after torch.manual_seed(1), or not, the same call draws another sketch."""

    @classmethod
    def words(cls, shape, seed, name):
        import torch

        return (seed, name, torch.initial_seed())


class ReprOfSeed(Count):
    """The key holds repr(seed): seed 3 and numpy's int64 3, which SketchMap allows, draw different sketches."""

    @classmethod
    def words(cls, shape, seed, name):
        return (repr(seed), name)


class ReseedsNumpy(Count):
    """Calls np.random.seed for its tables: every draw puts the user's own generator back to one fixed state."""

    @classmethod
    def make(cls, shape, m, seed, name):
        np.random.seed(zlib.crc32(f"{seed}|{name}".encode()))  # noqa: NPY002
        d = prod(shape)
        return {"h": np.random.randint(0, m, d), "s": 1 - 2 * np.random.randint(0, 2, d)}  # noqa: NPY002


class SignsOfTheSeed(Count):
    """Signs come from the seed alone, buckets from the name: the errors of layers are correlated by 1 / m, a half at
    m = 2 and 6% at m = 16, so that the variances of layers do not just add."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        return {"h": cls.buckets(d, m, seed, name), "s": cls.signs(d, seed)}


class TiedQueryAndKey(Count):
    """'q_proj' and 'k_proj' are written as 'qk' on purpose, to save tables: both layers share all of them."""

    @classmethod
    def words(cls, shape, seed, name):
        return (seed, re.sub(r"\b[qk]_proj\b", "qk", name))


class SharedBlocksOfNames(Count):
    """Half of the entries are drawn for the name, half for the seed alone: layers share half of their tables."""

    @classmethod
    def make(cls, shape, m, seed, name):
        d = prod(shape)
        own, common = (super(SharedBlocksOfNames, cls).make(shape, m, seed, word) for word in (name, "all"))
        return {k: np.where(np.arange(d) % 2 == 0, own[k], common[k]) for k in own}


class SignsFollowBuckets(Count):
    """Sign and bucket come from one word: the sign is its lowest bit, so that for even m a bucket has one sign only,
    and flat arrays come out D / m too long."""

    @classmethod
    def signs(cls, d, *words):
        return signs_of(bits(d, *words, "h"))
