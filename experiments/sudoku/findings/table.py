"""table: the paper's table and claims of when influence acts, from scores and difficulties alone.

Letters: n training boards, q test boards, tau loop steps. Self-influence is TracIn of a training board on itself, C(z)
its mass of |TracIn| on all test boards. A group's share of a test board is its part of that board's |TracIn|; a group's
late mass is the part of its SDI energy on that board that acts in the later half of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from sdi.scores import cross_mass, energy, group_share, late_mass

from ..split import bins
from .statistics import paired, quartile_claim, quartiles, spearman, welch

Array = np.ndarray
Bin = tuple[int, int]
PAPER_TRAIN: list[Bin] = [(0, 42), (43, 44), (45, 81)]  # of 9x9 boards, by blanks
PAPER_TEST: list[Bin] = [(46, 47), (48, 48), (49, 81)]


@dataclass(frozen=True)
class Groups:
    """Bins of blanks, lowest and highest, easiest first; the first is "easy", the last "hard"."""

    train: list[Bin]
    test: list[Bin]

    @classmethod
    def of(cls, size: int, train: Int[Array, "n"], test: Int[Array, "q"]) -> Groups:
        """The paper's bins on 9x9 boards where each holds some; otherwise three about equally full ones."""
        out = []
        for fixed, missing in ((PAPER_TRAIN, train), (PAPER_TEST, test)):
            usable = size == 9 and all(within(missing, b).sum() >= 3 for b in fixed)
            out.append([_seen(missing, b) for b in fixed] if usable else bins(missing))
        return cls(*out)


def within(missing: Int[Array, "n"], one: Bin) -> Array:
    """Which boards are in a bin."""
    return (missing >= one[0]) & (missing <= one[1])


def table(
    sdi: Float[Array, "n q tau"],
    own: Float[Array, "n"],
    train: Int[Array, "n"],
    test: Int[Array, "q"],
    groups: Groups,
) -> dict[str, Any]:
    """Every number of the paper's table and of its text, as plain values.

    sdi: scores. own: self-influence. train, test: blanks of the boards. groups: easy and hard.
    """
    tracin = sdi.sum(axis=-1)
    mass = cross_mass(tracin)
    sides = {"easy": within(train, groups.train[0]), "hard": within(train, groups.train[-1])}
    pick = {name: {"self": own[rows], "C": mass[rows]} for name, rows in sides.items()}
    return {
        "groups": {"train": groups.train, "test": groups.test},
        "counts": {name: int(rows.sum()) for name, rows in sides.items()},
        "self": {name: quartiles(some["self"]) for name, some in pick.items()},
        "C": {name: quartiles(some["C"]) for name, some in pick.items()},
        "self, hard against easy": welch(pick["hard"]["self"], pick["easy"]["self"]),
        "C, hard against easy": welch(pick["hard"]["C"], pick["easy"]["C"]),
        "self with blanks": spearman(own, train),
        "C with blanks": spearman(mass, train),
        "C with self": spearman(mass, own),
        "quartiles": quartile_claim(own, mass),
        "on test": {
            name: _on_test(sdi[:, within(test, one)], tracin[:, within(test, one)], sides)
            for name, one in (("easy", groups.test[0]), ("hard", groups.test[-1]))
        },
    }


def _on_test(sdi: Float[Array, "n k tau"], tracin: Float[Array, "n k"], sides: dict[str, Array]) -> dict[str, Any]:
    """Shares and late masses of the training groups on some test boards."""
    share = {name: group_share(tracin, rows) for name, rows in sides.items()}
    late = {name: late_mass(energy(sdi, rows)) for name, rows in sides.items()}
    return {
        "boards": sdi.shape[1],
        "share": {name: _mean(x) for name, x in share.items()},
        "share per board": {name: _mean(x / max(1, int(sides[name].sum()))) for name, x in share.items()},
        "share, hard against easy": paired(share["hard"], share["easy"]),
        "late": {name: _mean(x) for name, x in late.items()},
        "late, hard against easy": paired(late["hard"], late["easy"]),
    }


def energy_curves(sdi: Float[Array, "n q tau"], test: Int[Array, "q"], bins: Sequence[Bin]) -> list[dict[str, Any]]:
    """Panel B: the median and quartiles over the boards of each bin of the SDI energy at each step."""
    e = energy(sdi)
    out = []
    for one in bins:
        some = e[within(test, one)]
        low, median, high = np.percentile(some, [25, 50, 75], axis=0) if len(some) else np.zeros((3, e.shape[1]))
        late = quartiles(late_mass(some)) if len(some) else quartiles(some)
        curves = {"low": low.tolist(), "median": median.tolist(), "high": high.tolist()}
        out.append({"bin": list(one), "boards": len(some), **curves, "late mass": late})
    return out


def _seen(missing: Array, one: Bin) -> Bin:
    """A bin cut to what there is."""
    some = missing[within(missing, one)]
    return int(some.min()), int(some.max())


def _mean(x: Array) -> float | None:
    return float(np.mean(x)) if len(x) else None
