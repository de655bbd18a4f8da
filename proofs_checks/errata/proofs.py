"""Errata of the TensorSketch lemma, its proof, and the proof of the stepwise lemma."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np

from sdi.sketch import bounds

from ..count_sketch.older_bound import even_factor, older_factor
from ..machinery.moments import every_count_sketch, moments_of_matrices
from ..tensor_sketch.bound import certificate, of_ones
from ..tensor_sketch.variance import coefficients_swapped, two_for_every_m
from .erratum import Decision, erratum, variance_of


@erratum(
    "coefficients of the variance",
    where="Appendix on sketches, display of the TensorSketch lemma",
    written="(1/m)(P1 - N1) + (2/m^2)(P2 - N2)",
    true="(2/m^2)(P1 - N1) + (1/m)(P2 - N2) for even m, as the lemma's own proof ends",
    how="ones(2, 2) at m = 4, over every TensorSketch; at m = 2 the two agree",
)
def _coefficients() -> Decision:
    ones = np.ones((2, 2), dtype=np.int64)
    counted = variance_of(ones, ones, 4)
    printed, corrected = coefficients_swapped(ones, ones, 4), bounds.tensor_sketch_variance(ones, ones, 4)
    return float(counted) == printed, float(counted) == corrected, f"counted {counted}, printed form gives {printed:g}"


@erratum(
    "odd m",
    where="Appendix on sketches, TensorSketch lemma; hypothesis of the stepwise lemma",
    written="the first lemma asks nothing of m, has the coefficient 2/m^2 and a factor that cannot be improved; "
    "the second asks for an even m",
    true="for odd m the coefficient is 1/m^2 and the factor improves to 2/m^2 + 6/m; the bound needs no parity",
    how="ones(2, 2) at m = 3 over every TensorSketch; for odd m, ones(d, d) and all small 2 x 2 matrices against the "
    "smaller factor (for all matrices: statement tensor_sketch.bound)",
)
def _odd_m() -> Decision:
    ones = np.ones((2, 2), dtype=np.int64)
    counted = variance_of(ones, ones, 3)
    printed, corrected = two_for_every_m(9 * ones, ones, 3), bounds.tensor_sketch_variance(9 * ones, ones, 3)
    odd = range(1, 16, 2)
    X = np.array(list(product((-1, 0, 1), repeat=4))).reshape(-1, 2, 2)
    (first, second), norms = bounds.tensor_sketch_terms(X[:, None], X[None]), (X * X).sum((1, 2))
    better = all((first + m * second <= (2 + 6 * m) * np.outer(norms, norms)).all() for m in odd)
    better &= all(of_ones(d, m) < Fraction(2, m * m) + Fraction(6, m) for m in odd for d in (1, 4, 64, 256))
    text = (
        f"m=3: counted {counted}, printed form gives {Fraction(int(printed), 81)}; at odd m ones stay below 2/m^2 + 6/m"
    )
    return float(81 * counted) == printed, float(81 * counted) == corrected and better, text


@erratum(
    "what remains of the square",
    where="Appendix on sketches, proof of the TensorSketch lemma, after expanding the square",
    written="the squared off-diagonal part has a mean because the signs are only 2-wise independent",
    true="it has one for fully independent signs as well: every product meets itself",
    how="a fully independent CountSketch of the four entries of ones(2, 2) at m = 2, over all its hashes",
)
def _what_remains() -> Decision:
    form = moments_of_matrices([s.dense() for s in every_count_sketch(4, 2)]).variance
    ones = np.ones((1, 4), dtype=np.int64)
    variance = Fraction(int(form.numerators(ones, ones)[0, 0]), form.denominator)
    return variance == 0, variance > 0, f"with independent signs the mean is {variance}"


@erratum(
    "the dropped term",
    where="Appendix on sketches, proof of the TensorSketch bound",
    written="2 <X o X, Y> is at most the two trace terms, so it may be dropped",
    true="2 <X o X, Y o Y> is; with Y itself the inequality fails",
    how="1 x 1 matrices X = 1, Y = 1/2; all 2 x 2 integer matrices up to 1 for the correction",
)
def _dropped_term() -> Decision:
    half = Fraction(1, 2)
    written = 2 * 1 * half <= 2 * half**2
    X = np.array(list(product((-1, 0, 1), repeat=4))).reshape(-1, 2, 2)
    X2, Y2 = (X * X)[:, None], (X * X)[None]
    traces = (X2.sum(-1) * Y2.sum(-1)).sum(-1) + (X2.sum(-2) * Y2.sum(-2)).sum(-1)
    return written, bool((2 * (X2 * Y2).sum((-1, -2)) <= traces).all()), "X=1, Y=1/2: 1 against 1/2"


@erratum(
    "a third tighter",
    where="Appendix on sketches, after the TensorSketch bound",
    written="as m grows the bound becomes 33.3% tighter than 8/m",
    true="25% tighter; the older one is 33.3% larger, more than 33% so from m = 267 on, not only above 400",
    how="fractions, the reduction 1 - new/old for every m up to 4096 and at 10^9",
)
def _a_third() -> Decision:
    reduction = [1 - even_factor(m) / older_factor(m) for m in [*range(1, 4097), 10**9]]
    larger = {m: older_factor(m) / even_factor(m) - 1 for m in range(1, 4097)}
    first = next(m for m, excess in larger.items() if excess > Fraction(33, 100))
    written = abs(reduction[-1] - Fraction(1, 3)) < Fraction(1, 1000)
    true = max(reduction) < Fraction(1, 4) and Fraction(1, 4) - reduction[-1] < Fraction(1, 10**8) and first == 267
    return (
        written,
        true,
        f"at m=10^9 the reduction is {float(reduction[-1]):.6f}; the older is 33% larger from m={first}",
    )


@erratum(
    "factor in the outline",
    where="Proof of the stepwise lemma, outline, second item",
    written="TensorSketch's variance is at most (2/m^2 + 6/m) |X|^2 |Y|^2",
    true="(4/m^2 + 6/m) for even m; 2/m^2 + 6/m is the factor for odd m",
    how="matrices of ones, exact variance, m = 2 to 16",
)
def _outline() -> Decision:
    outline = {m: Fraction(2, m * m) + Fraction(6, m) for m in range(2, 17)}
    exceeded = [m for m in outline if of_ones(256, m) > outline[m]]
    below = all(of_ones(256, m) < outline[m] + (0 if m % 2 else Fraction(2, m * m)) for m in outline)
    text = f"ones(256, 256): exceeded at m = {exceeded}, by m=2 with {float(of_ones(256, 2)):.3f} > {float(outline[2])}"
    return not exceeded, below, text


@erratum(
    "equality",
    where="Proof of the stepwise lemma, remark on tightness",
    written="the bound is attained by outer products of parallel vectors",
    true="no nonzero X, Y of finite size attain it; ones(d, d) approach it like 1/d, and parallel is not enough: "
    "a single entry has variance 0",
    how="the gap at ones(d, d), the certificate over all 2 x 2 matrices with entries up to 1, one entry at m = 2",
)
def _equality() -> Decision:
    bound = even_factor(2)
    gaps = [bound - of_ones(d, 2) for d in (1, 2, 8, 64, 512)]
    X = np.array([x for x in product((-1, 0, 1), repeat=4) if any(x)]).reshape(-1, 2, 2)
    least = int(certificate(X[:, None], X[None], 2).min())
    single = np.array([[1, 0], [0, 0]])
    alone = variance_of(single, single, 2)
    text = f"gaps {', '.join(f'{float(g):.3g}' for g in gaps)} at d = 1, 2, 8, 64, 512; one entry: variance {alone}"
    return 0 in gaps or alone == bound, min(gaps) > 0 and least > 0 and gaps[-1] * 512 <= 6 and alone == 0, text


@erratum(
    "norm of the witness",
    where="Proof of the stepwise lemma, remark on tightness",
    written="the vectors of the near-worst case have unit RMS",
    true="they have unit Euclidean norm; their RMS is 1/sqrt(d)",
    how="squares of the entries 1/sqrt(d), in fractions",
)
def _norm_of_witness() -> Decision:
    sizes = range(2, 65)
    squares = {d: [Fraction(1, d)] * d for d in sizes}
    rms_one = all(sum(s) / d == 1 for d, s in squares.items())
    norm_one = all(sum(s) == 1 and sum(s) / d == Fraction(1, d) for d, s in squares.items())
    return rms_one, norm_one, "d=4: sum of squares 1, mean of squares 1/4"
