"""Sketches of two parameters are independent: no table in common, no correlation between their errors."""

from __future__ import annotations

import numpy as np

from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.mean_test import ALPHA, POWER, mean_is
from sdi.validate.subject import Subject, digest
from sdi.validate.trial import JUDGE

SEEDS = 32
NAMES = ("core.q.weight", "core.k.weight")


@sketch_property(
    "names",
    says="sketches of parameters with different names are independent of one another",
    remedy="draw every table from (seed, name): the errors of parameters add up as if independent only if they are",
    needs=("repeatable", "layout", "seeded"),
)
def names(subject: Subject, alpha: float = ALPHA) -> Evidence:
    shared = _shared_table(subject)
    if shared is not None:
        return Evidence(SEEDS, "tables", *shared)
    n, factor = max(subject.draws // 2, 60), float(subject.draw().variance_factor())
    seen = f"{SEEDS} pairs of tables; {n} pairs of draws: covariances of the sketches and of their norms"
    if factor == 0:
        return Evidence(SEEDS, "it has no randomness")
    x = np.ones(subject.shape) / np.sqrt(np.prod(subject.shape))
    sketched = [
        np.stack([np.asarray(subject.draw(JUDGE + k, name=name).apply(x), dtype=np.float64) for k in range(n)])
        for name in NAMES
    ]
    # Differences of two draws have mean 0 whatever the bias. For independent sketches, E <A, B>^2 <= E |A|^2 E |B|^2,
    # which is at most 1, and errors of variance f each multiply to f^2.
    half = n // 2
    a, b = ((s[:half] - s[half : 2 * half]) / np.sqrt(2) for s in sketched)
    norms = [(s * s).sum(axis=1) for s in sketched]
    errors = np.prod([(z[:half] - z[half : 2 * half]) / np.sqrt(2) for z in norms], axis=0)
    tests = (
        ("the covariance of S_q x with S_k x is {:.3g}, not 0", mean_is(0.0, (a * b).sum(axis=1), 1.0, alpha / 2)),
        ("the covariance of |S_q x|^2 with |S_k x|^2 is {:.3g}, not 0", mean_is(0.0, errors, factor**2, alpha / 2)),
    )
    power = f"a covariance of {tests[0][1].resolution:.2g} |x|^2 is found with probability {POWER}"
    for says, test in tests:
        if test.rejected:
            case = f"shape {subject.shape}, m={subject.m}, names {NAMES[0]!r} and {NAMES[1]!r}, x = ones / |ones|"
            return Evidence(SEEDS + 2, seen, says.format(test.mean), case, alpha, power)
    return Evidence(SEEDS + 2, seen, alpha=alpha, power=power)


def _shared_table(subject: Subject) -> tuple[str, str] | None:
    """A table that changes with the seed and never with the name; by chance with probability 2^-32 at most."""
    for shape in reversed(subject.shapes):
        first, second = ([digest(subject.draw(k, shape, name=name)) for k in range(SEEDS)] for name in NAMES)
        for table in first[0]:
            random = len({d[table] for d in first}) > 1
            if random and all(a[table] == b.get(table) for a, b in zip(first, second, strict=True)):
                case = f"shape {shape}, m={subject.m}, names {NAMES[0]!r} and {NAMES[1]!r}"
                return f"table {table!r} changes with the seed but is the same for two parameters", case
    return None
