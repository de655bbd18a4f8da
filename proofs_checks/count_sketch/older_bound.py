"""4/m^2 + 6/m against the older factor 8/m for the variance of TensorSketch.

The two are equal at m = 2; at m = 1 the newer is the larger; from m = 3 on it is the smaller. It takes away
1/4 - 1/(2m) of the older one: a quarter in the limit. (The older one is a third larger than the newer, in the
limit; that is not a reduction by a third.) With the exact factor 2c/m^2 + 6/m the older one is a true bound at
every m, and itself the best one at m = 1 and m = 2.

Decided exactly in fractions for each m in a range; beyond it, 4/m^2 + 6/m < 8/m is 4 < 2m.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from sdi.sketch import bounds

from ..machinery.statement import Verdict, statement
from .bound import exact


class Claim(NamedTuple):
    smaller_from: int = 3
    equal_at: tuple[int, ...] = (2,)
    reduction: Callable[[int], Fraction] = lambda m: Fraction(1, 4) - Fraction(1, 2 * m)
    limit: Fraction = Fraction(1, 4)


def even_factor(m: int) -> Fraction:
    return Fraction(4, m * m) + Fraction(6, m)


def older_factor(m: int) -> Fraction:
    return Fraction(8, m)


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    for m in range(1, 20001 if thorough else 4097):
        new, old = even_factor(m), older_factor(m)
        yield (new < old) == (m >= claim.smaller_from), f"m={m}: {new} against {old}"
        yield (new == old) == (m in claim.equal_at), f"m={m}: {new} against {old}"
        yield 1 - new / old == claim.reduction(m), f"m={m}: the reduction is {float(1 - new / old):.4f}"
        yield abs(1 - new / old - claim.limit) <= Fraction(1, 2 * m), f"m={m}: {float(1 - new / old):.4f} is not near"
        if m <= 512:
            best = exact(bounds.tensor_sketch_factor(m), m)
            yield best <= old, f"m={m}: 8/m is below the smallest true factor {best}"
            yield (best == old) == (m <= 2), f"m={m}: the smallest factor {best} against {old}"
            yield (best == new) == (m % 2 == 0), f"m={m}: the smallest factor {best} against {new}"


@statement(
    "older_bound",
    paper="Remarks on the older factor, main text and appendix",
    method="exact",
    claim=Claim(),
    mutants={
        "smaller from m = 2 on": Claim(smaller_from=2, equal_at=()),
        "a reduction by a third": Claim(limit=Fraction(1, 3)),
        "a reduction by a quarter at every m": Claim(reduction=lambda m: Fraction(1, 4)),
    },
)
def older_bound_compared(claim: Claim, thorough: bool) -> Verdict:
    """4/m^2 + 6/m equals 8/m at m = 2, is smaller from m = 3 on, and takes away 1/4 - 1/(2m) of it."""
    return Verdict.all(_cases(claim, thorough))
