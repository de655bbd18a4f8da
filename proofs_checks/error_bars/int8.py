"""Numbers are rounded to int8 at random: right on average, with a variance of at most a quarter of a unit squared.

Over all 65,536 values of u, exactly: for shares x of the largest number, j / 2^12 with |j| <= 2^12 and others that are
far smaller, the mean of the stored number is 127 x to 2^-17, its variance at most 1/4 (and 2^-16, which the grid of u
adds), it is a neighbour of 127 x among the whole numbers, zero stays zero, and the largest is 127 itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from sdi.store.int8 import LARGEST, round_at

from ..machinery.statement import Verdict, statement

Array = np.ndarray
Round = Callable[[Array, Array], Array]
EVERY = np.arange(1 << 16, dtype=np.uint16)


def _shares(thorough: bool) -> Array:
    grid = np.arange(-4096, 4097, 8 if thorough else 127) / 4096
    small = 2.0 ** -np.arange(7, 40.0)
    return np.concatenate([grid, small, -small, [0.0, 1.0, -1.0]])


def _cases(claim: Round, thorough: bool) -> Iterator[tuple[Any, str]]:
    for x in _shares(thorough):
        stored, true = claim(np.full(EVERY.shape, x), EVERY), LARGEST * x
        mean, variance = stored.mean(), stored.var()
        yield abs(mean - true) <= 2.0**-17, f"{true} is stored as {mean} on average"
        yield variance <= 0.25 + 2.0**-16, f"{true} is stored with variance {variance}"
        near = (stored == np.floor(true)) | (stored == np.ceil(true))
        yield near.all(), f"{true} is stored as {stored[~near][:1]}"
        if abs(x) in (0, 1):
            yield (stored == true).all(), f"{true} is not stored as itself"


def _nearest(share: Array, u: Array) -> Array:
    return np.rint(LARGEST * share)


def _down(share: Array, u: Array) -> Array:
    return np.floor(LARGEST * share)


def _eight_bits(share: Array, u: Array) -> Array:
    return round_at(share, u & 0xFF00)


def _two_units(share: Array, u: Array) -> Array:
    return 2 * np.floor(LARGEST * share / 2 + (u + 0.5) * 2.0**-16)


@statement(
    "int8.unbiased",
    paper="beside the paper: stores of int8",
    method="exact",
    claim=round_at,
    mutants={
        "to the nearest": _nearest,
        "always down": _down,
        "u of eight bits": _eight_bits,
        "to even numbers": _two_units,
    },
)
def int8_is_right_on_average(claim: Round, thorough: bool) -> Verdict:
    """A number in int8 is right on average to 2^-17 of a unit, with a variance of at most 1/4, whatever it is."""
    return Verdict.all(_cases(claim, thorough))
