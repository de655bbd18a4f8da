"""E <S x, S y> = <x, y>: over every draw where the class lists them, and statistically at the size asked for."""

from __future__ import annotations

import numpy as np

from sdi.validate.enumeration import Enumeration, enumerations
from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.other_sizes import FIXED, other_sizes, sample, searched
from sdi.validate.pairs import KINDS, Pair
from sdi.validate.sketch_under_test import Shape, Subject
from sdi.validate.statistics.mean_test import ALPHA, POWER, MeanTest, mean_is
from sdi.validate.trial import smallest, trial


@sketch_property(
    "unbiased",
    says="the mean of <S x, S y> over draws is <x, y>",
    remedy="E S^T S must be the identity: signs +1 and -1 equally likely, independent of one another and of the "
    "buckets; a dense projection to m numbers needs the factor 1 / sqrt(m)",
    needs=("repeatable", "seeded", "linear", "listing", "scale"),
)
def unbiased(subject: Subject, alpha: float = ALPHA) -> Evidence:
    exact = enumerations(subject)
    for every in exact:
        exactly = _exactly(every)
        if exactly is not None:
            return Evidence(len(every.S), "every draw", *exactly)
    others = other_sizes(subject)
    pairs_at = searched(subject)
    each = alpha / (len(KINDS) * len(pairs_at) + len(FIXED) * len(others))
    tests: list[tuple[Shape, int, Pair, MeanTest]] = []
    for size in pairs_at:
        tests += [(*size, p, t) for p, t in _tests(subject, *size, each)]
        if any(t.rejected for *_, t in tests):
            break
    asked = [test for test in tests if test[1] == subject.m]
    cases = sum(len(e.S) for e in exact) + len(tests) + len(FIXED) * len(others)
    seen = "".join(f"all {len(e.S)} draws of {e.shape} at m={e.m}; " for e in exact)
    seen += f"{subject.draws} draws of {len(tests)} pairs; fewer of {len(FIXED)} x at {len(others)} other sizes"
    finest = max(t.resolution for *_, t in asked)
    limited = "if the variance is within the claim"
    power = f"a bias of {finest:.2g} |x| |y| is found with probability {POWER}, {limited}" if finest else None
    bad = [test for test in tests if test[3].rejected]
    elsewhere = None if bad else _elsewhere(subject, each)
    if elsewhere is not None:
        return Evidence(cases, seen, *elsewhere, alpha, power, bool(exact))
    shape, _, p, t = max(asked, key=lambda test: test[3].resolution)
    if not bad and t.undecided:
        case = f"shape {shape}, m={subject.m}, {p}"
        return Evidence(cases, seen, t.undecided, case, alpha, power, bool(exact), decided=False)
    if not bad:
        return Evidence(cases, seen, alpha=alpha, power=power, listed=bool(exact))
    tiny = smallest(subject, lambda few, shape, m: [(p, t) for p, t in _tests(few, shape, m, each) if t.rejected])
    shape, m, (p, t) = tiny or (*bad[0][:2], bad[0][2:])
    wrong = f"the mean of <S x, S y> is {t.mean:.4g} |x| |y|, and <x, y> is {p.product:.4g} |x| |y|"
    return Evidence(cases, seen, wrong, f"shape {shape}, m={m}, {p}", alpha, power, bool(exact))


def _tests(subject: Subject, shape: Shape, m: int, alpha: float) -> list[tuple[Pair, MeanTest]]:
    """The most suspicious pair of each kind, tested on draws that did not choose it."""
    t = trial(subject, shape, m)
    return [(t.pairs[i], mean_is(t.pairs[i].product, t.fresh[i], t.factor, alpha)) for i in t.biased]


def _elsewhere(subject: Subject, alpha: float) -> tuple[str, str] | None:
    """What is wrong with the mean of |S x|^2 at other sizes, and where."""
    for s in (sample(subject, *size) for size in other_sizes(subject)):
        for k, x in enumerate(FIXED):
            t = mean_is(1.0, s.norms[:, k], s.factor, alpha)
            if t.rejected:
                wrong = f"the mean of |S x|^2 / |x|^2 is {t.mean:.4g}, not 1, in {len(s.norms)} draws"
                return wrong, f"{s.case}, x = {x}"
    return None


def _exactly(every: Enumeration) -> tuple[str, str] | None:
    """What is wrong with the mean over all draws, and where."""
    off = every.mean - np.eye(every.S.shape[-1])
    i, j = np.unravel_index(np.abs(off).argmax(), off.shape)
    if abs(off[i, j]) <= 1e-12:
        return None
    wrong = f"over all {len(every.S)} draws, (S^T S)[{i}, {j}] has mean {every.mean[i, j]:.6g}, not {int(i == j)}"
    return wrong, f"enumerate_all({every.shape}, {every.m})"
