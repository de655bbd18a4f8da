"""Draws at other sizes than the one asked for: odd and wide m, long and large parameters, names as models have them.

Every draw gets some arrays x that stay the same, and one of many batches of random ones, of several kinds: the claim
holds for every x, so a batch may be used again. What a draw does to |x|^2 is kept:

    norms     of the fixed arrays, whose mean must be 1 and whose variance within the claim
    mean      of |S x|^2 over arrays of random signs: its mean must be 1
    spread    of (|S x|^2 - 1)^2 over all arrays of a kind: its mean must be within the claim, which holds for every x

To average over many x of one draw leaves only the randomness of the buckets, so that a claim too small by a tenth shows
in a thousand draws; <S x, S x> alone would take a hundred times as many.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod, sqrt

import numpy as np
from jaxtyping import Float

from sdi.sketch.protocol import matrix_shape
from sdi.validate.sketch_under_test import LARGE, NARROW, WIDTHS, Shape, Sizes, Subject
from sdi.validate.trial import JUDGE

Array = np.ndarray
SPREADS = (
    "random signs", "an outer product of random signs", "one entry", "two entries", "one row", "one column",
    "signs that are a product over the low and the high byte of an entry's number", "the same with four low bits",
)  # fmt: skip
FIXED = (
    "equal entries", "a checkerboard", "an outer product of signs", "equal entries in the first half",
    "equal entries in the first eight", "equal entries in the last eight",
)  # fmt: skip
FLAT: Shape = (30, 20)
# Where tables do not grow with m (a dense projection's would not fit); the second is beyond sixteen bits.
WIDE: Sizes = (((9001,), 8192), ((1021,), (1 << 18) + 1))
SEARCHED = (FLAT, 2)  # where adversarial pairs are sought, too: a small m makes dependence of many entries plain
EACH, MORE, SOME = 8, 16, 4  # arrays of a kind; at SEARCHED; of random signs, where m is very large
NUMBERS = 1 << 18  # in all of them, at most
BATCHES, REMEMBERED = 31, 1 << 23  # batches of random arrays that take turns, and numbers in all of them, at most
FEWEST = 16  # draws of a size whose tables cost little
BYTES, LEAST = 1 << 15, 8  # of tables that may be drawn at one size, for each draw asked for; and draws all the same
NAMES = ("core.weight", "model.layers.3.mlp.up.weight", "blocks.1.attn.q.bias", "transformer.h.10.ln.weight")


@dataclass(frozen=True, eq=False)
class Sample:
    """What n draws of one size do to norms."""

    shape: Shape
    m: int
    factor: float  # the claimed bound
    mean: Float[Array, "n"]
    norms: Float[Array, "n fixed"]
    spread: Float[Array, "n kinds"]

    @property
    def case(self) -> str:
        return f"shape {self.shape}, m={self.m}"


def searched(subject: Subject) -> Sizes:
    """The sizes at which pairs are searched for: those asked for, and SEARCHED unless the class refuses it."""
    asked = tuple((shape, subject.m) for shape in subject.shapes)
    return asked + (SEARCHED,) * len(list(subject.drawn((SEARCHED,))))


@lru_cache(maxsize=2)
def other_sizes(subject: Subject) -> list[tuple[Shape, int, int]]:
    """Those that the class does not refuse, the smaller ones first, each with the number of draws that it gets."""
    flat: Sizes = ((FLAT, subject.m), (FLAT, 3), ((prod(FLAT),), subject.m))
    wide = _wide(subject)
    found = []
    shares = (
        ((SEARCHED,), 2), (flat, 4), (NARROW, 4), (WIDTHS, 8), (LARGE[:5] + wide[:1], 20), (LARGE[5:], 80),
        (wide[1:], 128),
    )  # fmt: skip
    for sizes, share in shares:
        n = max(subject.draws // share, FEWEST)
        for shape, m in sizes:
            for first in subject.drawn(((shape, m),)):
                affordable = BYTES * subject.draws // (int(first.nbytes) + 8 * prod(shape))
                found.append((shape, m, min(n, max(affordable, LEAST))))
    return found


def _wide(subject: Subject) -> Sizes:
    """WIDE, unless the tables of 600 entries grow with m, or the class refuses one of the widths that tell."""
    narrow, wide = (sum(int(one.nbytes) for one in subject.drawn((((prod(FLAT),), m),))) for m in (16, 512))
    return WIDE if 0 < wide <= 2 * narrow else ()


@lru_cache(maxsize=32)  # scale, unbiasedness and variance look at the same draws
def sample(subject: Subject, shape: Shape, m: int, n: int) -> Sample:
    rng = subject.rng(23, *shape, m)
    kinds = len(SPREADS) if m < WIDE[1][1] else 1
    most = MORE if (shape, m) == SEARCHED else EACH if kinds > 1 else SOME
    each = max(1, min(most, NUMBERS // (len(SPREADS) * prod(shape))))
    mean, norms, spread = np.empty(n), np.empty((n, len(FIXED))), np.empty((n, kinds))
    for k, x in enumerate(_batches(n, shape, each, rng)):
        one = subject.draw(JUDGE + k, shape, m, NAMES[k % len(NAMES)])
        y = np.asarray(one.apply(x[: len(FIXED) + kinds * each]), dtype=np.float64)
        z = np.einsum("ks,ks->k", y, y)
        of_kinds = z[len(FIXED) :].reshape(kinds, each)
        norms[k], mean[k], spread[k] = z[: len(FIXED)], of_kinds[0].mean(), np.square(of_kinds - 1).mean(axis=1)
    return Sample(shape, m, float(one.variance_factor()), mean, norms, spread)


def _batches(n: int, shape: Shape, each: int, rng: np.random.Generator) -> Iterator[Float[Array, "arrays *shape"]]:
    """n batches of the fixed arrays and `each` random ones of every kind: as many as may be remembered, in turn."""
    fixed = _fixed(shape, rng)
    different = max(1, min(BATCHES, REMEMBERED // (len(SPREADS) * each * prod(shape))))
    kept: list[Array] = []
    for k in range(n):
        if k < different:
            kept.append(np.concatenate([fixed, _random(shape, each, rng)]))
        yield kept[k % different]


def _fixed(shape: Shape, rng: np.random.Generator) -> Float[Array, "fixed *shape"]:
    rows, cols = matrix_shape(shape)
    r, c = rng.choice([-1.0, 1.0], size=rows), rng.choice([-1.0, 1.0], size=cols)
    half = np.zeros((rows, cols))
    half.flat[: (rows * cols + 1) // 2] = 1.0
    first, last = (half * 0.0 for _ in range(2))
    first.flat[:8] = last.flat[-8:] = 1.0
    board = 1.0 - 2.0 * ((np.arange(rows)[:, None] + np.arange(cols)) % 2)
    x = np.stack([np.ones((rows, cols)), board, np.multiply.outer(r, c), half, first, last])
    return (x / np.sqrt(np.square(x).sum(axis=(1, 2), keepdims=True))).reshape(-1, *shape)


def _random(shape: Shape, each: int, rng: np.random.Generator) -> Float[Array, "arrays *shape"]:
    """`each` arrays of norm one of every kind in SPREADS."""
    rows, cols = matrix_shape(shape)
    x = np.zeros((len(SPREADS), each, rows, cols))
    signs = rng.integers(0, 2, size=(each, rows, cols), dtype=np.int8) * 2.0 - 1.0
    x[0] = signs / sqrt(rows * cols)
    x[1] = signs[:, :, :1] * signs[:, :1, :] / sqrt(rows * cols)
    k = np.arange(each)
    i, j, i2, j2 = (rng.integers(d, size=each) for d in (rows, cols, rows, cols))
    x[2, k, i, j] = 1.0
    same = (i == i2) & (j == j2)
    x[3, k, i, j], x[3, k, i2, j2] = np.where(same, 1.0, sqrt(0.5)), np.where(same, 1.0, -sqrt(0.5))
    x[4, k, i] = signs[k, i] / sqrt(cols)
    x[5, k, :, j] = signs[k, :, j] / sqrt(rows)
    number = np.arange(rows * cols)
    for kind, low in ((6, 8), (7, 4)):  # as rank one is to a TensorSketch, this is to a hash made of parts of a number
        a, b = (rng.integers(0, 2, size=(each, size)) * 2.0 - 1.0 for size in (1 << low, (number[-1] >> low) + 1))
        x[kind] = (a[:, number % (1 << low)] * b[:, number >> low] / sqrt(rows * cols)).reshape(each, rows, cols)
    return x.reshape(-1, *shape)
