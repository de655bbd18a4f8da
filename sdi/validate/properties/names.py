"""Sketches of two parameters are independent: no table in common, no correlation between their errors.

However little their names differ: in one letter, one digit, the ending, or only at the end of a long name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.sketch_under_test import Subject, digest
from sdi.validate.statistics.mean_test import ALPHA, COARSEST, POWER
from sdi.validate.statistics.sign_test import SignTest, products_needed, signs_are_fair
from sdi.validate.trial import JUDGE

SEEDS = 32
LONG = "blocks.0." * 12
PAIRS = (
    ("core.q.weight", "core.k.weight"), ("core.0.weight", "core.1.weight"), ("core.weight", "core.bias"),
    ("core.wa", "core.wb"), ("core.1.weight", "core.11.weight"), ("core.weight", "core.weight_v"),
    ("core.q.weight", "core.Q.weight"), (f"{LONG}q.weight", f"{LONG}k.weight"), (f"{LONG}weight", f"{LONG}weights"),
)  # fmt: skip
CORRELATED = 3  # pairs whose errors are compared, too


@sketch_property(
    "names",
    says="sketches of parameters with different names are independent of one another",
    remedy="draw every table from (seed, name): the errors of parameters add up as if independent only if they are",
    needs=("repeatable", "layout", "seeded"),
)
def names(subject: Subject, alpha: float = ALPHA) -> Evidence:
    cases = SEEDS * len(PAIRS)
    shared = _shared_table(subject)
    if shared is not None:
        return Evidence(cases, "tables", *shared)
    if subject.draw().variance_factor() == 0:
        return Evidence(cases, "it has no randomness")
    each = alpha / CORRELATED / 2
    enough = 2 * products_needed(each)
    n = min(max(subject.draws // 4, enough), subject.draws)
    seen = f"tables for {len(PAIRS)} pairs of names and {SEEDS} seeds; for {CORRELATED} of these, {n} pairs of draws: "
    seen += "signs of the products of their changes, and of their norms' changes"
    cases += 2 * CORRELATED
    finest = 0.0
    for pair in PAIRS[:CORRELATED]:
        case = f"shape {subject.shape}, m={subject.m}, names {pair[0]!r} and {pair[1]!r}, x random"
        for what, test in _together(subject, pair, n, each):
            finest = max(finest, test.resolution)
            if test.rejected:
                wrong = f"from draw to draw, {what} of the two change together: of the products of their changes, "
                wrong += f"{test.positive:.0%} are positive and {test.negative:.0%} negative"
                return Evidence(cases, seen, wrong, case, alpha)
    power = f"a surplus of {finest:.2g} of one sign is found with probability {POWER}"
    if finest > COARSEST:
        wrong = f"a surplus of {finest:.2g} could pass unseen; it takes {enough} draws to see one of {COARSEST}"
        return Evidence(cases, seen, wrong, case, alpha, power, decided=False)
    return Evidence(cases, seen, alpha=alpha, power=power)


def _together(subject: Subject, pair: tuple[str, str], n: int, alpha: float) -> Iterator[tuple[str, SignTest]]:
    """x has no two equal entries: a mask of equal ones is the same whatever it hides."""
    x = subject.rng(14).standard_normal(subject.shape)
    sketched = [
        np.stack([np.asarray(subject.draw(JUDGE + k, name=name).apply(x), dtype=np.float64) for k in range(n)])
        for name in pair
    ]
    half = n // 2
    a, b = (s[:half] - s[half : 2 * half] for s in sketched)
    norms = [(s * s).sum(axis=1) for s in sketched]
    c, d = (z[:half] - z[half : 2 * half] for z in norms)
    yield "S x", signs_are_fair((a * b).sum(axis=1), alpha)
    yield "|S x|^2", signs_are_fair(c * d, alpha)


def _shared_table(subject: Subject) -> tuple[str, str] | None:
    """A table that changes with the seed and never with the name; by chance with probability 2^-32 at most."""
    for shape, pair in product(reversed(subject.shapes), PAIRS):
        first, second = ([digest(subject.draw(k, shape, name=name)) for k in range(SEEDS)] for name in pair)
        for table in first[0]:
            random = len({d[table] for d in first}) > 1
            if random and all(a[table] == b.get(table) for a, b in zip(first, second, strict=True)):
                case = f"shape {shape}, m={subject.m}, names {pair[0]!r} and {pair[1]!r}"
                return f"table {table!r} changes with the seed but is the same for two parameters", case
    return None
