"""What a sketch's numbers show of its variance, on average over every draw there is.

TensorSketch: over the frequencies 0 < w < m/2 of a = TS X and b = TS Y, the products Re(A B*) are uncorrelated, with
one mean and one variance V, and Var <a, b> = 2 V / m up to the part in 1/m^2; so 2/m times their sample variance has
exactly the mean (P2 - N2) / m. The buckets themselves are correlated: their sample variance has another mean.

Hadamard and mask: m products drawn out of N without replacement; the classical estimate, exactly.

Two-sided: a two-way table whose rows are alike given the columns, and the other way round. The sum of both estimates
counts what rows and columns do together twice: at least the variance. With one side kept, exactly.

By listing every draw of tiny sketches, in float64 to 1e-9: Fourier coefficients are no fractions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from sdi.sketch import bounds
from sdi.sketch.estimate_variance import Pairs, over_entries, over_frequencies, over_grid
from sdi.sketch.shipped.count_and_tensor import TensorSketch
from sdi.sketch.shipped.hadamard import HadamardSketch, padded
from sdi.sketch.shipped.kronecker import KroneckerSketch
from sdi.sketch.shipped.mask import MaskSketch

from ..machinery.moments import all_signs, every_count_sketch
from ..machinery.statement import Verdict, statement

Array = np.ndarray
Case = tuple[Any, str]


def matrices(shape: tuple[int, int], count: int) -> Array:
    """Integers, the first all one: a gradient of one token, flat."""
    random = np.random.default_rng(count).integers(-3, 4, (count - 1, *shape))
    return np.concatenate([np.ones((1, *shape), dtype=np.int64), random]).astype(np.float64)


def _near(x: Array, y: Array) -> bool:
    return bool(np.allclose(x, y, rtol=1e-9, atol=1e-9 * np.abs(y).max()))


def _over_hashes(claim: Callable[..., Array], thorough: bool) -> Iterator[Case]:
    X = matrices((2, 2), 4)
    second = np.array([[bounds.tensor_sketch_terms(x, y)[1] for y in X] for x in X])
    for m in (5, 6, 7, 8) if thorough else (5, 6):
        draws = [TensorSketch(r, c).apply(X) for r, c in product(every_count_sketch(2, m), repeat=2)]
        mean = np.mean([claim(Pairs.of(a, a)) for a in draws], axis=0)
        yield _near(mean, second / m), f"m={m}: the mean over all hashes is {mean[0, 0]:g}, not {second[0, 0] / m:g}"


def _buckets(pairs: Pairs) -> Array:
    return over_entries(pairs, 10**12)


def _count_in_place_of_count_less_one(pairs: Pairs) -> Array:
    count = (pairs.a.shape[1] - 1) // 2
    return over_frequencies(pairs) * (count - 1) / count


def _all_frequencies(pairs: Pairs) -> Array:
    A, B = np.fft.rfft(pairs.a), np.fft.rfft(pairs.b)
    return np.asarray(np.einsum("nw,qw->nqw", A, B.conj()).real.var(axis=-1, ddof=1) * 2 / pairs.a.shape[1])


@statement(
    "sample_variance.frequencies",
    paper="beside the paper: TensorSketch's variance from its own numbers",
    method="float64",
    claim=over_frequencies,
    mutants={
        "buckets in place of frequencies": _buckets,
        "over the count, not one less": _count_in_place_of_count_less_one,
        "frequencies 0 and m/2 as well": _all_frequencies,
    },
)
def frequencies_show_the_variance(claim: Callable[..., Array], thorough: bool) -> Verdict:
    """Over all hashes, 2/m times the sample variance of Re(A B*) over 0 < w < m/2 has the mean (P2 - N2) / m."""
    return Verdict.all(_over_hashes(claim, thorough))


def _listed(draws: Iterator[tuple[Fraction, Any]], X: Array, sample: Callable[[Any, Array], Array]) -> tuple[Any, Any]:
    """The mean of the sample's variance, and the variance of the product, over all draws."""
    mean, first, squares = (np.zeros((len(X), len(X))) for _ in range(3))
    for p, sketch in draws:
        a = sketch.apply(X)
        mean += float(p) * sample(sketch, a)
        first += float(p) * (a @ a.T)
        squares += float(p) * np.square(a @ a.T)
    return mean, squares - np.square(first)


def _entries(claim: Callable[..., Array], thorough: bool) -> Iterator[Case]:
    for shape, m in (((2, 2), 2), ((2, 2), 3), ((2, 4), 3), ((3, 2), 2)):
        sizes: dict[Any, int] = {
            HadamardSketch: padded(shape[0]) * padded(shape[1]),
            MaskSketch: shape[0] * shape[1],
        }
        for kind, N in sizes.items():
            mean, variance = _listed(kind.enumerate_all(shape, m), matrices(shape, 4), partial(_sampled, claim, N))
            said = f"{kind.kind} {shape}, m={m}: mean {mean[0, 1]:g}, variance {variance[0, 1]:g}"
            yield _near(mean, variance), said


def _sampled(claim: Callable[..., Array], out_of: int, sketch: Any, a: Array) -> Array:
    return claim(Pairs.of(a, a), out_of)


def _tabled(claim: Callable[..., Array], sketch: KroneckerSketch, a: Array) -> Array:
    return claim(Pairs.of(a, a), sketch.k, (sketch.left is not None, sketch.right is not None))


@statement(
    "sample_variance.entries",
    paper="beside the paper: a sample without replacement",
    method="float64",
    claim=over_entries,
    mutants={
        "with replacement": lambda pairs, N: over_entries(pairs, 10**12),
        "over the count, not one less": lambda pairs, N: (
            over_entries(pairs, N) * (pairs.a.shape[1] - 1) / pairs.a.shape[1]
        ),
    },
)
def entries_show_the_variance(claim: Callable[..., Array], thorough: bool) -> Verdict:
    """Over all draws, m (1 - m/N) times the sample variance of a_k b_k has the mean Var <a, b>: Hadamard, mask."""
    return Verdict.all(_entries(claim, thorough))


def _two_sided(k: int, shape: tuple[int, int], both: bool) -> Iterator[tuple[Fraction, KroneckerSketch]]:
    """Every pair of k rows of signs; the right side kept, if not both are drawn."""
    lefts, rights = (all_signs(k * d).reshape(-1, k, d) for d in shape)
    each: Any = rights if both else [None]
    for left, right in product(lefts, each):
        yield Fraction(1, len(lefts) * len(each)), KroneckerSketch(left, right, shape)


def _grid(claim: Callable[..., Array], thorough: bool) -> Iterator[Case]:
    for shape, k, both in (((3, 2), 2, True), ((3, 2), 2, False), ((2, 2), 3, True)):
        draws = _two_sided(k, shape, both)
        mean, variance = _listed(draws, matrices(shape, 4), partial(_tabled, claim))
        holds = (mean >= variance * (1 - 1e-9) - 1e-9).all() if both else _near(mean, variance)
        said = f"{shape}, k={k}, {'both' if both else 'one'}: mean {mean[0, 0]:g}, variance {variance[0, 0]:g}"
        yield holds, said
        yield (mean <= 2 * variance + 1e-9).all(), said


def _rows_only(pairs: Pairs, k: tuple[int, int], drawn: tuple[bool, bool]) -> Array:
    return over_grid(pairs, k, (drawn[0], drawn[1] and not drawn[0]))


def _as_if_independent(pairs: Pairs, k: tuple[int, int], drawn: tuple[bool, bool]) -> Array:
    return over_entries(pairs, 10**12)


@statement(
    "sample_variance.grid",
    paper="beside the paper: a two-sided projection as a two-way table",
    method="float64",
    claim=over_grid,
    mutants={"rows only": _rows_only, "all numbers as if independent": _as_if_independent},
)
def rows_and_columns_show_the_variance(claim: Callable[..., Array], thorough: bool) -> Verdict:
    """Over all draws, the estimate from rows and columns is Var <a, b> to twice that; with one side kept, equal."""
    return Verdict.all(_grid(claim, thorough))
