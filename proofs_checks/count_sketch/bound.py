"""CountSketch's variance is at most (2/m) |x|^2 |y|^2, and no smaller factor will do for all sizes.

Decided exactly, for all real vectors, by a certificate:

    2 |x|^2 |y|^2 - m Var = sum over i < j of (x_i y_j - x_j y_i)^2 + 2 sum over i of (x_i y_i)^2

The right side is a sum of squares whatever x and y. The identity is one of biquadratic forms whose coefficients
touch at most four indices, with the variance counted over every hash; see `biquadratic`. A factor below 2/m is
refuted by x = y = (1, ..., 1) of a length where the exact variance exceeds it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import CountSketch

from ..machinery.biquadratic import disagreement, points
from ..machinery.moments import count_sketch_moments, every_hash
from ..machinery.statement import Verdict, statement

Array = np.ndarray


def factor(m: int) -> float:
    """What the library says of a CountSketch of width m."""
    return bounds.worst_case(CountSketch(h=np.zeros(1, dtype=np.int64), s=np.ones(1, dtype=np.int8), m=m))


def certificate(x: Array, y: Array) -> Any:
    """2 |x|^2 |y|^2 - m Var, as a sum of squares."""
    minors = x[..., :, None] * y[..., None, :] - x[..., None, :] * y[..., :, None]
    return (np.triu(minors, 1) ** 2).sum((-1, -2)) + 2 * ((x * y) ** 2).sum(-1)


def certified_variance(m: int) -> Callable[[Array, Array], Any]:
    """What the certificate says the variance is, at multiples of m."""
    return lambda x, y: (2 * (x * x).sum(-1) * (y * y).sum(-1) - certificate(x, y)) / m


def exact(value: float, m: int) -> Fraction:
    """The fraction with denominator up to m^2, or 65536 for small m, that a float64 stands for."""
    fraction = Fraction(value).limit_denominator(max(m * m, 2**16))
    if abs(float(fraction) - value) > 4e-16 * abs(value):
        raise ValueError(f"{value} is not a fraction with so small a denominator, m={m}")
    return fraction


def _cases(claim: Callable[[int], float], thorough: bool) -> Iterator[tuple[Any, str]]:
    for m in range(1, 33 if thorough else 17):
        form = count_sketch_moments(every_hash(4, m), m).variance
        text = disagreement(form, certified_variance(m), (4,), points(4, m), points(4))
        yield not text, f"m={m}: the certificate is not 2 |x|^2 |y|^2 - m Var: {text}"
        f = exact(claim(m), m)
        for d in (1, 2, 3, 8, 64, 1024):
            ones = np.ones(d, dtype=np.int64)
            var = Fraction(int(bounds.count_sketch_variance(m * ones, ones, m)), m * m)
            yield var <= f * d * d, f"m={m}, x=y=ones({d}): Var/|x|^2|y|^2 = {float(var / d**2):.4f} > {float(f):.4f}"
        yield f * m >= 2, f"m={m}: the certificate covers 2/m, not {f}"


@statement(
    "count_sketch.bound",
    paper="Appendix on sketches, CountSketch lemma, bound",
    method="exact",
    claim=factor,
    mutants={"1/m": lambda m: 1 / m, "2/m - 1/(16 m)": lambda m: 2 / m - 1 / (16 * m)},
)
def count_sketch_bound_holds(claim: Callable[[int], float], thorough: bool) -> Verdict:
    """Var <CS x, CS y> <= (2/m) |x|^2 |y|^2 for all real x, y of any size."""
    return Verdict.all(_cases(claim, thorough), "by a sum of squares")
