"""apply is linear, and treats every array of a batch alike: whatever their number, their magnitude and their size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.show_case import at
from sdi.validate.sketch_under_test import LARGE, Subject

Array = np.ndarray
FACTORS = ((1.0, 1.0), (1.0, -1.0), (-3.0, 0.3), (1e-6, 1e6), (1.0, 1e-7))
EXTREME = ((1e-30, 3e-30), (1e30, -3e30))  # no threshold and no clipping shows at numbers of order one
POWERS = (-900, -500, 500, 900)  # of two, which change no digit: norms and squares leave the range of floats there
ROUNDING = 1e-10  # of the norms of what is added
BATCHES = ((9, 2), (40,), (0,), (0, 2), (1,))  # what is done to the first few arrays may not be done to the others
MANY, FEW = 4500, 9  # arrays of a large batch, and of the small ones that it is compared with
POWERS_OF_TWO, MOST = (2, 64, 256, 1024), 20_000  # arrays of other batches, the last of a tiny parameter
FLAT = (1, 1301)  # a parameter whose dense() is looked at, too
NUMBERS = 1 << 16  # in a batch as large as a side of the parameter, or as the sketch


@sketch_property(
    "linear",
    says="S(a x + b y) = a S(x) + b S(y), for each array of a batch as for one alone",
    remedy="steps can only be sketched as they come if the sketch is linear: no rounding, clipping, normalising or "
    "thresholding of x inside apply",
    needs=("repeatable", "layout"),
)
def linear(subject: Subject) -> Evidence:
    largest = max(prod(shape) for shape, _ in LARGE)
    seen = f"integers, fractions, numbers from 1e-270 to 1e270, batches of 0 to {MANY}, up to {largest:,} entries"
    found = first_wrong(_tries(subject), seen)
    return found if found.case is None else replace(found, case=f"{found.case}, drawn with seed {subject.seed_of(1)}")


def _tries(subject: Subject) -> Iterator[Try]:
    for k, sketch in enumerate(subject.smallest_first()):
        rng = subject.rng(1, k)
        zero = np.abs(sketch.apply(np.zeros(sketch.shape))).max(initial=0)
        yield (None if zero == 0 else f"S(0) has an entry of {zero:.3g}"), at(sketch)
        first = np.zeros(sketch.shape)
        first.flat[0] = 1.0
        whole, normal = rng.integers(-3, 4, size=(2, *sketch.shape)) * 1.0, rng.standard_normal((2, *sketch.shape))
        pairs: list[tuple[Array, Array]] = [(first, first), (first, 0.37 * first)]
        pairs += [(both[0], both[1]) for both in (whole, normal)]
        for factors, (x, y) in product((FACTORS, EXTREME), pairs):
            for a, b in factors:
                yield _combined(sketch, a, b, x, y)
        yield from _scaled(sketch, normal[0])
        yield from _parts(sketch, normal[0])
        sides = {(d,) for d in (*sketch.shape, sketch.size)} | {tuple(sketch.shape)}
        for lead in (*BATCHES, *sorted(lead for lead in sides if prod((*lead, *sketch.shape)) <= NUMBERS)):
            yield _batch(sketch, lead, 1, rng)
    for shape in subject.shapes:
        for n in (*POWERS_OF_TWO, MANY):
            yield _batch(subject.draw(1, shape), (n,), FEW, subject.rng(15))
    for sketch in subject.drawn(((((4, 3), 4)), ((3,), 2))):
        yield _batch(sketch, (MOST,), FEW + 1000, subject.rng(15))
    for sketch in (*subject.smallest_first(), *subject.drawn(((FLAT, subject.m),)), subject.draw(2), subject.draw(3)):
        yield _dense(sketch, subject.rng(25).standard_normal(sketch.shape))
    for k, sketch in enumerate(subject.drawn(LARGE)):
        rng = subject.rng(16, k)
        x, y = rng.standard_normal((2, *sketch.shape))
        for a, b in ((-3.0, 0.3), (1.0, 1e-7)):
            yield _combined(sketch, a, b, x, y)
        yield from _scaled(sketch, x)
        yield from _parts(sketch, x)
        yield _batch(sketch, (3,), 1, rng)


def _combined(sketch: Any, a: float, b: float, x: Array, y: Array) -> Try:
    left, sx, sy = sketch.apply(a * x + b * y), sketch.apply(x), sketch.apply(y)
    size = abs(a) * (_norm(x) + _norm(sx)) + abs(b) * (_norm(y) + _norm(sy))
    off = np.abs(left - (a * sx + b * sy)).max(initial=0)
    wrong = None if off <= ROUNDING * size else f"S(ax + by) and a S(x) + b S(y) differ by {off:.3g}"
    return wrong, at(sketch, a=a, b=b, x=x, y=y)


def parts(x: Array) -> dict[str, Array]:
    """Arrays that are something special, to be taken off x: a sketch may not look at what it is given."""
    half, row, column, corner = (np.zeros_like(x) for _ in range(4))
    half.flat[: x.size // 2] = x.flat[: x.size // 2]
    row[0], column[..., 0], corner.flat[-1] = x[0], x[..., 0], x.flat[-1]
    sides = [np.arange(1.0, d + 1) for d in x.shape]
    one_rank = np.multiply.outer(*sides) if len(sides) == 2 else sides[0]
    found = {
        "its first half": half, "its first row": row, "its first column": column, "its last entry": corner,
        "what is above 0": np.maximum(x, 0), "whole numbers": np.floor(x), "equal entries": np.full_like(x, 0.7),
        "an array of rank one": one_rank, "what is small": np.where(np.abs(x) < 0.3, x, 0.0),
        "its sorted entries": np.sort(x, axis=None).reshape(x.shape),
        "itself in float32": x.astype(np.float32).astype(np.float64),
    }  # fmt: skip
    if len(x.shape) == 2 and x.shape[0] == x.shape[1]:
        found |= {"its symmetric part": (x + x.T) / 2, "its diagonal": np.diag(np.diag(x)), "a triangle": np.tril(x)}
    return found


def _parts(sketch: Any, x: Array) -> Iterator[Try]:
    """S(x) = S(part) + S(x - part), for parts and rests that an implementation may have a way of its own for."""
    named = parts(x)
    rests = np.stack([x - part for part in named.values()])
    together, whole = np.asarray(sketch.apply(rests)), np.asarray(sketch.apply(x))
    for (what, part), rest in zip(named.items(), together, strict=True):
        off = np.abs(sketch.apply(part) + rest - whole).max(initial=0)
        good = off <= ROUNDING * (_norm(x) + _norm(part) + _norm(whole) + _norm(rest))
        wrong = f"S(x) is {off:.3g} off S(part) + S(x - part), where the part is {what}"
        yield (None if good else wrong), at(sketch, x=x, part=part)


def _dense(sketch: Any, x: Array) -> Try:
    """dense(), where a class has it, is the matrix of apply."""
    if not hasattr(sketch, "dense"):
        return None, at(sketch)
    matrix, wanted = np.asarray(sketch.dense(), dtype=np.float64), np.asarray(sketch.apply(x))
    if matrix.shape != (sketch.size, x.size):
        return f"dense() has shape {matrix.shape}, not {(sketch.size, x.size)}", at(sketch)
    off = np.abs(matrix @ x.ravel() - wanted).max(initial=0)
    wrong = None if off <= ROUNDING * (_norm(x) + _norm(wanted)) else f"dense() @ x is {off:.3g} off apply(x)"
    return wrong, at(sketch, x=x)


def _scaled(sketch: Any, x: Array) -> Iterator[Try]:
    wanted = np.asarray(sketch.apply(x))
    for power in POWERS:
        with np.errstate(all="ignore"):
            off = np.abs(np.ldexp(sketch.apply(np.ldexp(x, power)), -power) - wanted).max(initial=0)
        wrong = f"S(2^{power} x) is off 2^{power} S(x) by {off:.3g} of it"
        yield (None if off <= ROUNDING * (_norm(x) + _norm(wanted)) else wrong), at(sketch, x=x)


def _batch(sketch: Any, lead: tuple[int, ...], few: int, rng: np.random.Generator) -> Try:
    """All arrays of a batch at once, and a few at a time: one alone, if few is 1."""
    sizes = np.resize([1.0, 1e3, 1e-3], lead).reshape(*lead, *[1] * len(sketch.shape))
    batch = rng.standard_normal((*lead, *sketch.shape)) * sizes
    case = at(sketch, f", a batch of shape {batch.shape}")
    try:
        together, flat = np.asarray(sketch.apply(batch)), batch.reshape(prod(lead), *sketch.shape)
    except ValueError:
        if batch.size:
            raise
        return None, case  # an empty batch may be refused: reshape(..., -1) does
    if together.shape != (*lead, sketch.size):
        return f"apply gives shape {together.shape} for arrays of shape {batch.shape}", case
    parts = [sketch.apply(x) for x in (flat if few == 1 else np.split(flat, range(few, len(flat), few)))]
    alone = np.concatenate([np.zeros((0, sketch.size)), *(np.reshape(y, (-1, sketch.size)) for y in parts)])
    alone = alone.reshape(together.shape)
    close = np.abs(together - alone) <= 1e-9 * np.abs(alone).max(axis=-1, keepdims=True, initial=0) + 1e-12
    return (None if close.all() else "arrays in a batch and alone give different answers"), case


def _norm(x: Array) -> float:
    return float(np.linalg.norm(x))
