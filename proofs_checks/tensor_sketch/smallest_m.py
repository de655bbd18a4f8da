"""The smallest m for a wanted error is the smallest whose bound allows it.

    smallest_m(e) = min {m : 2c/m^2 + 6/m <= e^2},  c = 2 for even m, 1 for odd

with `tensor_sketch.bound` for the factor. Decided in Fractions by trying every m from 1 on, for errors from 4 down to
0.03; beyond, by the m itself, its neighbours below, and half of it. Powers of two likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from sdi.sketch import bounds

from ..machinery.statement import Verdict, statement

Claim = Callable[..., int]
ERRORS = (4.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.75, 0.5, 0.25, 0.125, 0.1, 0.0625, 0.05, 0.03)
FINER = (0.01, 0.003, 0.001)


def allowed(m: int, error: float) -> bool:
    return Fraction(2 * (2 - m % 2), m * m) + Fraction(6, m) <= Fraction(error) ** 2


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    for error in ERRORS:
        wanted = next(m for m in range(1, 10**6) if allowed(m, error))
        got = claim(error)
        yield got == wanted, f"error {error}: {got}, but the smallest is {wanted}"
        power = next(1 << k for k in range(40) if allowed(1 << k, error))
        got = claim(error, power_of_two=True)
        yield got == power, f"error {error}: {got}, but the smallest power of two is {power}"
    for error in FINER:
        m = claim(error)
        yield allowed(m, error), f"error {error}: the bound at m={m} is larger"
        below = [k for k in (m // 2, m - 3, m - 2, m - 1) if k > 0 and allowed(k, error)]
        yield not below, f"error {error}: m={m} is not the smallest, {below[:1]} will do"


@statement(
    "smallest_m",
    paper="Stepwise lemma, bound, solved for m",
    method="exact",
    claim=bounds.smallest_m,
    mutants={
        "half of it": lambda error, power_of_two=False: max(1, bounds.smallest_m(error, power_of_two) // 2),
        "twice it": lambda error, power_of_two=False: 2 * bounds.smallest_m(error, power_of_two),
        "the next larger one": lambda error, power_of_two=False: bounds.smallest_m(error, power_of_two) + 1,
        "as for CountSketch": lambda error, power_of_two=False: max(1, round(2 / error**2)),
    },
)
def smallest_m_is_the_smallest(claim: Claim, thorough: bool) -> Verdict:
    """smallest_m is the first m whose worst case has a standard deviation within the wanted error."""
    return Verdict.all(_cases(claim, thorough))
