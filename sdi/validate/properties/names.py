"""Sketches of two parameters, or of two seeds, are independent: no table in common, no correlation of their errors.

However little their names differ, and where they have different shapes, as a weight and its bias.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from math import ceil, prod, sqrt

import numpy as np

from sdi.sketch.protocol import matrix_shape
from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.model_names import PAIRS, model_names
from sdi.validate.sketch_under_test import Shape, Subject, digest
from sdi.validate.statistics.mean_test import ALPHA, COARSEST, POWER
from sdi.validate.statistics.sign_test import SignTest, products_needed, signs_are_fair
from sdi.validate.trial import JUDGE

Array = np.ndarray
SEEDS = 32
ARRAYS = 6  # x for which two sketches are compared
STATISTICS = 3  # of each
Two = tuple[tuple[str, Shape, int], tuple[str, Shape, int]]  # name, shape, and what is added to the seed


@sketch_property(
    "names",
    says="sketches of parameters with different names, and of different seeds, are independent of one another",
    remedy="draw every table from (seed, name): the errors of parameters add up as if independent only if they are",
    needs=("repeatable", "layout", "seeded"),
)
def names(subject: Subject, alpha: float = ALPHA) -> Evidence:
    many = model_names()
    cases = SEEDS * len(PAIRS) + len(many)
    if subject.draw().variance_factor() == 0:
        return Evidence(cases, "it keeps all products, so that there are no errors to go together")
    shared = _shared_by_two(subject) or _shared_by_many(subject, many) or _written_together(subject)
    if shared is not None:
        return Evidence(cases, "tables", *shared)
    pairs = compared(subject)
    each = alpha / len(pairs) / ARRAYS / STATISTICS
    enough = 2 * products_needed(each)
    n = min(max(subject.draws // 4, enough), subject.draws)
    seen = f"tables for {len(many)} names, and for {len(PAIRS)} pairs with {SEEDS} seeds; {n} draws of {len(pairs)} "
    seen += "pairs: signs of the products of their changes, of their norms' and of their errors'"
    cases += STATISTICS * ARRAYS * len(pairs)
    finest = 0.0
    for two in pairs:
        case = f"m={subject.m}, " + " and ".join(f"{name!r} {shape}" for name, shape, _ in two)
        case += ", seeds that differ by one" if two[1][2] else ""
        for what, test in _together(subject, two, n, each):
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


def compared(subject: Subject) -> list[Two]:
    """Two of one shape, a weight and its bias, a norm's two vectors, and one parameter under two seeds."""
    shape, tall, flat = subject.shape, (subject.m + 8, 3), (prod(subject.shape),)
    alike = (("core.q", "core.k"), ("core.0.w", "core.1.w"), ("encoder.layers.0.q.weight", "decoder.layers.0.q.weight"))
    pairs: list[Two] = [((a, shape, 0), (b, shape, 0)) for a, b in alike]
    pairs += [(("core.weight", tall, 0), ("core.bias", tall[:1], 0))] if len(shape) == 2 else []
    pairs += [(("norm.weight", flat, 0), ("norm.bias", flat, 0))]
    return [*pairs, (("core.weight", shape, 0), ("core.weight", shape, 1))]


def _together(subject: Subject, two: Two, n: int, alpha: float) -> Iterator[tuple[str, SignTest]]:
    sketched, norms, errors = [], [], []
    for name, shape, later in two:
        x, stride = _arrays(subject, shape), 2 if two[1][2] else 1
        sizes = np.square(x).reshape(ARRAYS, -1).sum(axis=1)
        drawn = (subject.draw(JUDGE + stride * k + later, shape, name=name) for k in range(n))
        sketched.append(np.stack([np.asarray(one.apply(x), dtype=np.float64) for one in drawn]))
        norms.append(np.square(sketched[-1]).sum(axis=2))
        errors.append(np.round(np.abs(norms[-1] - sizes), 9))
    half, size = n // 2, min(s.shape[-1] for s in sketched)
    a, b = (s[:half, :, :size] - s[half : 2 * half, :, :size] for s in sketched)
    c, d, e, f = (z[:half] - z[half : 2 * half] for z in (*norms, *errors))
    for k in range(ARRAYS):
        yield "S x", signs_are_fair((a[:, k] * b[:, k]).sum(axis=1), alpha)
        yield "|S x|^2", signs_are_fair(c[:, k] * d[:, k], alpha)
        yield "the sizes of |S x|^2 - |x|^2", signs_are_fair(e[:, k] * f[:, k], alpha)


def _arrays(subject: Subject, shape: Shape) -> Array:
    """Random, ones, and random in the first column, the first row, the first entries only: what two shapes may share.

    The last has so few entries that about half of the draws bring no two of them into one bucket: buckets that are
    shared, with signs that are not, show there.

    The random ones have no two equal entries: a mask of equal ones is the same whatever it hides.
    """
    rows, cols = matrix_shape(shape)
    u = subject.rng(14).standard_normal(max(prod(shape), subject.m + 8))
    x = np.zeros((ARRAYS, rows, cols))
    x[0].flat = subject.rng(22).standard_normal(rows * cols)
    x[1] = 1.0
    x[2, :, 0] = u[:rows]
    x[3, 0 if cols > 1 else slice(None)] = u[:cols] if cols > 1 else u[:rows, None]
    x[4].flat[: subject.m + 8] = u[: min(rows * cols, subject.m + 8)]
    few = 1 + ceil(sqrt(1.4 * subject.m))
    x[5].flat[:few] = 1 + np.abs(u[:few][: rows * cols])
    return x.reshape(ARRAYS, *shape)


def _shared_by_two(subject: Subject) -> tuple[str, str] | None:
    """A table that changes with the seed and never with the name; by chance with probability 2^-32 at most."""
    for shape, pair in product(reversed(subject.shapes), PAIRS):
        shared = _common_table(subject, shape, pair)
        if shared is not None:
            return shared
    return None


def _shared_by_many(subject: Subject, many: list[str]) -> tuple[str, str] | None:
    """The same of all pairs of many names: those that have a table in common once are asked again with other seeds."""
    known: dict[tuple[str, bytes], list[str]] = {}
    for name in many:
        for table, content in digest(subject.draw(name=name)).items():
            known.setdefault((table, content), []).append(name)
    groups = [group for group in known.values() if 1 < len(group) <= len(many) // 4]  # more: hardly random at all
    for group in groups[:SEEDS]:
        for pair in list(combinations(group, 2))[:2]:
            shared = _common_table(subject, subject.shape, pair)
            if shared is not None:
                return shared
    return None


def _common_table(subject: Subject, shape: Shape, pair: tuple[str, str]) -> tuple[str, str] | None:
    table = _always_equal(*([digest(subject.draw(k, shape, name=name)) for k in range(SEEDS)] for name in pair))
    if table is None:
        return None
    case = f"shape {shape}, m={subject.m}, names {pair[0]!r} and {pair[1]!r}"
    return f"table {table!r} changes with the seed but is the same for two parameters", case


def _written_together(subject: Subject) -> tuple[str, str] | None:
    """A table that is drawn from name and seed as one text, in either order."""
    names_first = [((f"core.{k}", int(f"{k}{k}")), (f"core.{k}{k}", k)) for k in range(1, SEEDS + 1)]
    seeds_first = [((f"{k}.core", k), (".core", int(f"{k}{k}"))) for k in range(1, SEEDS + 1)]
    for pairs in (names_first, seeds_first):
        first, second = (
            [digest(subject.sketch.draw(subject.shape, subject.m, seed=seed, name=name)) for name, seed in side]
            for side in zip(*pairs, strict=True)
        )
        table = _always_equal(first, second)
        if table is not None:
            (name, seed), (other, later) = pairs[0]
            case = f"shape {subject.shape}, m={subject.m}, {name!r} with seed {seed} and {other!r} with seed {later}"
            return f"table {table!r} is the same where name and seed, written as one text, are", case
    return None


def _always_equal(first: list[dict[str, bytes]], second: list[dict[str, bytes]]) -> str | None:
    """A table that changes within each list, and is the same in both at every place."""
    for table in first[0]:
        random = len({d[table] for d in first}) > 1
        if random and all(a[table] == b.get(table) for a, b in zip(first, second, strict=True)):
            return table
    return None
