"""Sketches of two parameters, or of two seeds, depend on each other."""

import re
from math import prod
from typing import ClassVar

import numpy as np

from fifth_sceptic.base import Flat, signs
from sdi.sketch import bits


class Anagram(Flat):
    """The key of a name is the sum of its letters' codes: layers.12.weight and layers.21.weight are one."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=str(sum(map(ord, name))))


class Truncated(Flat):
    """Names are cut after 24 letters: transformer.layers.0.self_attn.q_proj.weight and k_proj share a table."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=seed, name=name[:24])


class SeedFloat32(Flat):
    """Seeds go through float32: dates such as 20261118 and 20261119 are one seed."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed=int(np.float32(seed)), name=name)


class SeedPlusLayer(Flat):
    """The key is seed + layer: layer 1 at seed 0 is layer 0 at seed 1, so repeats are not independent."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        layer = re.search(r"\d+", name)
        other = re.sub(r"\d+", "#", name, count=1)
        return super().draw(shape, m, seed=seed + int(layer[0]) if layer else seed, name=other)


class SeedNameText(Flat):
    """Seed and name are written one after the other: seed 1 of 10.weight is seed 11 of 0.weight."""

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        return super().draw(shape, m, seed="", name=f"{seed}{name}")


class SignsSharedByLayers(Flat):
    """Signs depend on the seed only, buckets on seed and name: errors of layers go together by 1 / m each."""

    @classmethod
    def s_of(cls, shape, seed, name):
        return signs(prod(shape), seed, "s")


class SeedRotates(Flat):
    """The seed only rotates the buckets: tables differ, but all seeds make the same errors, so repeats=R says 0."""

    @classmethod
    def h_of(cls, shape, m, seed, name):
        return (super().h_of(shape, m, 0, name) + int(bits(1, seed)[0] % np.uint64(m))) % m

    @classmethod
    def s_of(cls, shape, seed, name):
        return super().s_of(shape, 0, name)


class NameRolls(Flat):
    """The name only shifts one table of the seed's: for flat gradients all layers of a shape make the same error."""

    @classmethod
    def h_of(cls, shape, m, seed, name):
        return np.roll(super().h_of(shape, m, seed, ""), int(bits(1, name)[0] % np.uint64(prod(shape))))

    @classmethod
    def s_of(cls, shape, seed, name):
        return np.roll(super().s_of(shape, seed, ""), int(bits(1, name)[0] % np.uint64(prod(shape))))


class CachesByShape(Flat):
    """Keeps what was drawn by shape, m and seed: layers of one shape get the table of the first that was asked for."""

    drawn: ClassVar[dict] = {}

    @classmethod
    def draw(cls, shape, m, *, seed, name):
        key = (tuple(shape), m, seed)
        if key not in cls.drawn:
            cls.drawn[key] = super().draw(shape, m, seed=seed, name=name)
        return cls.drawn[key]


SKETCHES = [
    ("Anagram", Anagram, "broken"),
    ("Truncated", Truncated, "broken"),
    ("SeedFloat32", SeedFloat32, "broken"),
    ("SeedPlusLayer", SeedPlusLayer, "broken"),
    ("SeedNameText", SeedNameText, "broken"),
    ("SignsSharedByLayers", SignsSharedByLayers, "broken"),
    ("SeedRotates", SeedRotates, "broken"),
    ("NameRolls", NameRolls, "broken"),
    ("CachesByShape", CachesByShape, "broken"),
]
