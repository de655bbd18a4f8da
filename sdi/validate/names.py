"""Sketches of two parameters are independent: no table in common, no correlation between their errors.

However little their names differ: in one letter, one digit, the ending, or only at the end of a long name.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.mean_test import ALPHA, POWER, MeanTest, mean_is
from sdi.validate.subject import Subject, digest
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
    n, factor = max(subject.draws // 2, 60), float(subject.draw().variance_factor())
    if factor == 0:
        return Evidence(cases, "it has no randomness")
    seen = f"tables for {len(PAIRS)} pairs of names and {SEEDS} seeds; for {CORRELATED} of these, {n} pairs of draws: "
    seen += "covariances of the sketches and of their norms"
    finest = 0.0
    for pair in PAIRS[:CORRELATED]:
        tests = list(_correlations(subject, pair, n, factor, alpha / CORRELATED / 2))
        finest = max(finest, tests[0][1].resolution)
        for says, test in tests:
            if test.rejected:
                case = f"shape {subject.shape}, m={subject.m}, names {pair[0]!r} and {pair[1]!r}, x = ones / |ones|"
                return Evidence(cases + 2 * CORRELATED, seen, says.format(test.mean), case, alpha)
    power = f"a covariance of {finest:.2g} |x|^2 is found with probability {POWER}"
    return Evidence(cases + 2 * CORRELATED, seen, alpha=alpha, power=power)


def _correlations(
    subject: Subject, pair: tuple[str, str], n: int, factor: float, alpha: float
) -> Iterator[tuple[str, MeanTest]]:
    """Differences of two draws have mean 0 whatever the bias. For independent sketches, E <A, B>^2 <= E |A|^2 E |B|^2,
    which is at most 1, and errors of variance f each multiply to f^2."""
    x = np.ones(subject.shape) / np.sqrt(np.prod(subject.shape))
    sketched = [
        np.stack([np.asarray(subject.draw(JUDGE + k, name=name).apply(x), dtype=np.float64) for k in range(n)])
        for name in pair
    ]
    half = n // 2
    a, b = ((s[:half] - s[half : 2 * half]) / np.sqrt(2) for s in sketched)
    norms = [(s * s).sum(axis=1) for s in sketched]
    errors = np.prod([(z[:half] - z[half : 2 * half]) / np.sqrt(2) for z in norms], axis=0)
    yield "the covariance of S_1 x with S_2 x is {:.3g}, not 0", mean_is(0.0, (a * b).sum(axis=1), 1.0, alpha)
    yield "the covariance of |S_1 x|^2 with |S_2 x|^2 is {:.3g}, not 0", mean_is(0.0, errors, factor**2, alpha)


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
