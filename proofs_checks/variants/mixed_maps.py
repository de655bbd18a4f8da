"""Mixed maps: whatever the classes of the sketches side by side, the whole is unbiased and the variances add.

Hypothesis: the sketches are independent of one another, each unbiased. Then the covariance of two of them is
E Z_1 E Z_2 - E Z_1 E Z_2 = 0, whatever their kinds, and with `bounds.concatenation_bound` the whole varies by at most
the sum of factor times |x|^2 |y|^2 over the parameters.

Decided for every two of the shipped classes that can list their draws, on vectors of two entries, by every joint draw
through the library's SketchMap: the covariance is a form with one coefficient for each (x_i y_k, x'_i y'_k), and all
must vanish. In float64, since the classes scale by square roots: to 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import combinations, cycle, islice, product
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.shipped.count_and_tensor import Keep
from sdi.sketch.shipped.hadamard import HadamardSketch
from sdi.sketch.shipped.kronecker import KroneckerSketch
from sdi.sketch.shipped.mask import MaskSketch
from sdi.sketch.shipped.rademacher import RademacherSketch
from sdi.sketch.shipped.sparse import SparseSketch
from sdi.sketch.sketch_map import SketchMap

from ..machinery.agreement import Case
from ..machinery.moments import every_count_sketch
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Draws = list[tuple[Fraction, Any]]
Joint = Callable[[Draws, Draws], Iterable[tuple[Fraction, Any, Any]]]
SHAPES = {"a": (2,), "b": (2,)}


def all_draws() -> dict[str, Draws]:
    """Every draw of each class, for two entries."""
    hashes = list(every_count_sketch(2, 2))
    listed: dict[str, Draws] = {"count": [(Fraction(1, len(hashes)), sketch) for sketch in hashes]}
    for cls, m in ((RademacherSketch, 1), (KroneckerSketch, 1), (HadamardSketch, 1), (MaskSketch, 1), (Keep, 2)):
        listed[cls.__name__] = list(cls.enumerate_all((2,), m))
    listed["sparse-2"] = list(SparseSketch.with_nonzeros(2).enumerate_all((2,), 2))
    return listed


def independent(first: Draws, second: Draws) -> Iterator[tuple[Fraction, Any, Any]]:
    """Every sketch of a with every sketch of b."""
    for (p, a), (q, b) in product(first, second):
        yield p * q, a, b


def _one_by_one(first: Draws, second: Draws) -> Iterator[tuple[Fraction, Any, Any]]:
    """The k-th draw of a always comes with the k-th of b."""
    count = max(len(first), len(second))
    for (_, a), (_, b) in zip(islice(cycle(first), count), islice(cycle(second), count), strict=True):
        yield Fraction(1, count), a, b


def _first_half(first: Draws, second: Draws) -> Iterator[tuple[Fraction, Any, Any]]:
    """Independent, but b is drawn from the first half of its draws only."""
    part = second[: (len(second) + 1) // 2]
    for (p, a), (_, b) in product(first, part):
        yield p / len(part), a, b


def _cases(joint: Joint, thorough: bool) -> Iterator[Case]:
    basis, listed = np.eye(4), all_draws()
    arrays = {"a": basis[:, :2], "b": basis[:, 2:]}
    x, y = np.random.default_rng(0).normal(size=(2, 8, 4))
    norms = [{"a": np.linalg.norm(z[:, :2], axis=1), "b": np.linalg.norm(z[:, 2:], axis=1)} for z in (x, y)]
    for one, other in combinations(listed, 2):
        found = [(float(p), SketchMap({"a": a, "b": b}, SHAPES)) for p, a, b in joint(listed[one], listed[other])]
        weight = np.array([p for p, _ in found])
        mapped = np.stack([sketch.apply(arrays) for _, sketch in found])
        gram = mapped @ mapped.swapaxes(-1, -2)  # <S e_u, S e_v>
        mean = np.tensordot(weight, gram, axes=1)
        yield np.abs(mean - basis).max() < 1e-12, f"{one} and {other}: the mean is {mean.tolist()}"
        off = gram - mean
        covariance = np.einsum("s,sik,sjl->ikjl", weight, off[:, :2, :2], off[:, 2:, 2:])
        most = np.abs(covariance).max()
        yield most < 1e-12, f"{one} and {other}: a coefficient of the covariance is {most:.3g}"
        variance = weight @ np.einsum("nu,suv,nv->sn", x, off, y) ** 2
        allowed = bounds.concatenation_bound(found[0][1], *norms)
        yield (variance <= allowed * (1 + 1e-12) + 1e-12).all(), f"{one} and {other}: the variance exceeds the bound"


@statement(
    "mixed_maps",
    paper="beside the paper: a rule for each parameter",
    method="float64",
    claim=independent,
    mutants={
        "the k-th draw of one with the k-th of the other": _one_by_one,
        "half of the draws never come": _first_half,
    },
)
def mixed_maps_are_unbiased_and_variances_add(joint: Joint, thorough: bool) -> Verdict:
    """Independent sketches of different kinds side by side are unbiased and uncorrelated: their variances add."""
    return Verdict.all(_cases(joint, thorough), "every two shipped kinds")
