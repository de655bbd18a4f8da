"""Self-influence, the cross-influence mass C(z) and the shares of groups are what their definitions say.

    self-influence of z  = TracIn(z, z) = |g_z|^2
    C(z)                 = sum over queries z' of |TracIn(z, z')|
    Share_G(z')          = sum over z in G of |TracIn(z, z')| / sum over all z of |TracIn(z, z')|

Integers, with every sum a loop over Fractions, against the functions of sdi/scores/summaries.py: the first two exactly,
the shares to 1e-14. Self-influence is also the diagonal of what `tracin` gives of examples with themselves, and the
shares of groups that make up all training examples add up to 1; a query that nothing influences has none (NaN).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sdi.scores import products
from sdi.scores import summaries as ours

from ..machinery.statement import Verdict, statement

Array = np.ndarray


@dataclass(frozen=True)
class Claim:
    self_influence: Callable[[Array], Array] = ours.self_influence
    cross_mass: Callable[[Array], Array] = ours.cross_mass
    group_share: Callable[[Array, Array], Array] = ours.group_share


OURS = Claim()


def _share(column: list[int], group: Array) -> Fraction:
    part = sum(abs(x) for x, member in zip(column, group, strict=True) if member)
    return Fraction(part, sum(abs(x) for x in column))


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    for n, q, D in ((1, 1, 1), (4, 3, 5), (6, 2, 7), *([(40, 30, 50)] if thorough else [])):
        g, p = rng.integers(-9, 10, (n, D)), rng.integers(-9, 10, (q, D))
        g[0], p[:, 0] = 1, 9  # no query without mass
        where = f"{n} training examples, {q} queries"
        norms = [sum(int(x) ** 2 for x in row) for row in g]
        got = claim.self_influence(g.astype(np.float64))
        yield np.array_equal(got, norms), f"{where}: self-influence is {got.tolist()}, not {norms}"
        diagonal = products.tracin(g.astype(np.float64), g.astype(np.float64)).diagonal()
        yield np.array_equal(got, diagonal), f"{where}: self-influence is not TracIn(z, z)"
        tracin = [[sum(int(a) * int(b) for a, b in zip(x, y, strict=True)) for y in p] for x in g]
        scores = products.tracin(g.astype(np.float64), p.astype(np.float64))
        mass = [sum(map(abs, row)) for row in tracin]
        found = claim.cross_mass(scores)
        yield np.array_equal(found, mass), f"{where}: C(z) is {found.tolist()}, not {mass}"
        total = np.zeros(q)
        labels = rng.integers(3, size=n)
        for label in range(3):
            group = labels == label
            shares = claim.group_share(scores, group)
            wanted = [float(_share([row[j] for row in tracin], group)) for j in range(q)]
            said = f"{where}: the share of {int(group.sum())} of them is {shares.tolist()}, not {wanted}"
            yield np.allclose(shares, wanted, rtol=1e-14, atol=0), said
            total += shares
        yield np.allclose(total, 1, rtol=1e-14), f"{where}: the shares of all groups add up to {total.tolist()}"
    none = claim.group_share(np.array([[0.0, 1.0], [0.0, -1.0]]), np.array([True, False]))
    yield (
        np.array_equal(none, [np.nan, 0.5], equal_nan=True),
        f"a query that nothing influences has the share {none[0]}",
    )


def _of_signed_sums(tracin: Array, group: Array) -> Array:
    return np.asarray(np.abs(tracin[group].sum(0)) / np.abs(tracin).sum(0))


def _of_all_queries(tracin: Array, group: Array) -> Array:
    return np.asarray(np.abs(tracin)[group].sum(0) / np.abs(tracin).sum())


@statement(
    "masses",
    paper="Main text and appendix on Sudoku: self-influence, C(z) and Share_G",
    method="exact",
    claim=OURS,
    mutants={
        "the norm, not its square": replace(OURS, self_influence=lambda g: np.sqrt(ours.self_influence(g))),
        "C(z) of signed scores": replace(OURS, cross_mass=lambda tracin: np.abs(tracin.sum(-1))),
        "C of queries": replace(OURS, cross_mass=lambda tracin: np.abs(tracin).sum(0)),
        "the mean in place of the sum": replace(OURS, cross_mass=lambda tracin: np.abs(tracin).mean(-1)),
        "shares of signed sums": replace(OURS, group_share=_of_signed_sums),
        "shares of the mass on all queries": replace(OURS, group_share=_of_all_queries),
        "shares of those outside the group": replace(OURS, group_share=lambda t, group: ours.group_share(t, ~group)),
    },
)
def masses_are_their_definitions(claim: Claim, thorough: bool) -> Verdict:
    """Self-influence is |g|^2, C(z) the sum of |TracIn| over queries, Share_G a group's part of a query's |TracIn|."""
    return Verdict.all(_cases(claim, thorough))
