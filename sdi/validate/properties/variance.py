"""Var <S x, S y> <= variance_factor() |x|^2 |y|^2: on pairs of every kind, the worst of them found by a search."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdi.validate.adversary import most_varying, variance
from sdi.validate.enumeration import Enumeration, enumerations
from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.other_sizes import FIXED, SPREADS, Sample, other_sizes, sample, searched
from sdi.validate.pairs import KINDS, Pair, known_pairs
from sdi.validate.sketch_under_test import Shape, Subject
from sdi.validate.statistics.mean_test import ALPHA
from sdi.validate.statistics.variance_test import VarianceTest, mean_is_at_most, variance_is_at_most
from sdi.validate.trial import smallest, trial

ROUNDING = 1e-9


@sketch_property(
    "variance",
    says="Var <S x, S y> is at most variance_factor() |x|^2 |y|^2 for all x and y",
    remedy="claim what the worst pair needs, not a typical one: error bars are made from it. Often the worst pair is "
    "x = y, or an outer product of vectors with equal entries",
    needs=("repeatable", "seeded", "linear", "listing", "scale", "unbiased"),
)
def within_bound(subject: Subject, alpha: float = ALPHA) -> Evidence:
    exact = enumerations(subject)
    worst_exact = []
    for every in exact:
        p, share, claim = _worst_of_all(subject, every)
        worst_exact.append(share)
        if share > 1 + ROUNDING:
            case = f"all {len(every.S)} draws of shape {every.shape}, m={every.m}, {p}"
            return Evidence(len(every.S), "every draw", _says(share * claim, claim, "over all draws is"), case)
    sizes = other_sizes(subject)
    pairs_at = searched(subject)
    each = alpha / (len(KINDS) * len(pairs_at) + (len(FIXED) + len(SPREADS)) * len(sizes))
    tests: list[tuple[Shape, int, Pair, VarianceTest, float]] = []
    for size in pairs_at:
        tests += [(*size, *test) for test in _tests(subject, *size, each)]
        if any(t.rejected for _, _, _, t, _ in tests):
            break
    cases = sum(len(e.S) for e in exact) + len(tests) + (len(FIXED) + len(SPREADS)) * len(sizes)
    bad = [test for test in tests if test[3].rejected]
    if bad:
        tiny = smallest(subject, lambda few, shape, m: [x for x in _tests(few, shape, m, each) if x[1].rejected])
        shape, m, (p, t, claim) = tiny or (*bad[0][:2], bad[0][2:])
        return Evidence(cases, "", _certain(t, claim), f"shape {shape}, m={m}, {p}", alpha, None, bool(exact))
    measured = [(t, claim) for *_, t, claim in tests]
    for s in (sample(subject, *size) for size in sizes):
        for case, t in _spreads(s, each):
            if t.rejected:
                return Evidence(cases, "", _certain(t, s.factor), case, alpha, None, bool(exact))
            measured.append((t, s.factor))
    shares = [t.variance / claim for *_, t, claim in tests if claim > 0] + worst_exact  # of many draws: no noise
    least = max((t.least / claim for t, claim in measured if claim > 0), default=0.0)
    seen = f"the worst pair measures {max(shares, default=0.0):.2g} of the claimed bound, which is refuted "
    seen += f"at none of {len(sizes) + 1} sizes"
    if not all(trial(subject, shape, subject.m).searched for shape in subject.shapes):
        seen += f", of the known kinds only: {subject.shape} is too large for a search"
    power: str | None = f"a claim below {least:.2g} of this one would have been refuted on these"
    if all(claim == 0 for *_, claim in tests):
        seen, power = "it claims none and has none", None
    return Evidence(cases, seen, alpha=alpha, power=power, listed=bool(exact))


def _certain(t: VarianceTest, claim: float) -> str:
    return _says(t.variance, claim, f"is above {t.least:.3g} for certain, measured")


def _spreads(s: Sample, alpha: float) -> Iterator[tuple[str, VarianceTest]]:
    """The spread about 1 of |S x|^2, for x of norm one: `unbiased` has looked at their mean."""
    for k, x in enumerate(FIXED):
        yield f"{s.case}, x = y = {x}", mean_is_at_most(s.factor, np.square(s.norms[:, k] - 1), alpha)
    for k, x in enumerate(SPREADS[: s.spread.shape[1]]):
        yield f"{s.case}, x = y = {x}, anew for every draw", mean_is_at_most(s.factor, s.spread[:, k], alpha)


def _says(value: float, claim: float, how: str) -> str:
    return f"the variance {how} {value:.3g} |x|^2 |y|^2, the claim is {claim:.3g} |x|^2 |y|^2"


def _tests(subject: Subject, shape: Shape, m: int, alpha: float) -> list[tuple[Pair, VarianceTest, float]]:
    """The most varying pair of each kind, tested on draws that did not choose it."""
    t = trial(subject, shape, m)
    return [(t.pairs[i], variance_is_at_most(t.factor, t.fresh[i], alpha), t.factor) for i in t.varying]


def _worst_of_all(subject: Subject, every: Enumeration) -> tuple[Pair, float, float]:
    """The pair with the largest variance that a search over all draws finds, its share of the claim, the claim."""
    rng, d = subject.rng(9), every.S.shape[-1]
    starts = np.concatenate([np.ones((1, d)), np.eye(d), rng.standard_normal((8, d))])
    pairs = most_varying(every.S, every.weights, starts, every.shape) + known_pairs(every.shape, rng)
    worst = max(pairs, key=lambda p: variance(every.S, every.weights, p))
    claim = float(subject.draw(0, every.shape, every.m).variance_factor())
    value = variance(every.S, every.weights, worst)
    return worst, (value / claim if claim > 0 else (0.0 if value < 1e-18 else float("inf"))), claim
