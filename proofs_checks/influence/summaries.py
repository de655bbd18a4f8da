"""What is said of a trajectory in one number is what its definition says.

    energy[j, t]   = sum over training examples i, all or those of a group, of |sdi[i, j, t]|
    late mass      = energy at the steps from `first` on / all of it; by default the later half (17 to 32 of 32)
    centre of mass = sum of t energy[t] / sum of energy[t]
    horizon        = the first t with energy up to t >= level of all of it
    cancellation   = 1 - |sum of sdi[t]| / sum of |sdi[t]|

Integers, with every sum a loop over Fractions; the functions of sdi/scores/summaries.py must agree to 1e-12, and on the
horizon exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sdi.scores import summaries as ours

from ..machinery.statement import Verdict, statement

Array = np.ndarray
Summary = Callable[..., Array]
LEVELS = (0.5, 0.75, 1.0)  # exact in binary


@dataclass(frozen=True)
class Claim:
    energy: Summary = ours.energy
    late_mass: Summary = ours.late_mass
    centre_of_mass: Summary = ours.centre_of_mass
    horizon: Summary = ours.horizon
    cancellation: Summary = ours.cancellation


OURS = Claim()


def _share(energy: list[int], first: int) -> Fraction:
    return Fraction(sum(energy[first - 1 :]), sum(energy))


def _centre(energy: list[int]) -> Fraction:
    return Fraction(sum(t * e for t, e in enumerate(energy, start=1)), sum(energy))


def _reached(energy: list[int], level: float) -> int:
    return next(t for t in range(1, len(energy) + 1) if sum(energy[:t]) >= Fraction(level) * sum(energy))


def _cancelled(scores: list[int]) -> Fraction:
    return 1 - Fraction(abs(sum(scores)), sum(map(abs, scores)))


def _cases(claim: Claim, thorough: bool) -> Iterator[tuple[Any, str]]:
    rng = np.random.default_rng(0)
    for tau in (1, 2, 5, 8, 32) if thorough else (1, 5, 8, 32):
        scores = rng.integers(-9, 10, (4, 3, tau))
        scores[0, :, 0] = 9  # no trajectory without mass
        energy = [[sum(abs(int(x)) for x in scores[:, j, t]) for t in range(tau)] for j in range(3)]
        got = claim.energy(scores.astype(np.float64))
        yield np.array_equal(got, energy), f"tau={tau}: energy is {np.asarray(got).tolist()}, not {energy}"
        total = np.zeros((3, tau))
        for group in (np.array([True, False, True, False]), np.array([False, True, False, True])):
            some = claim.energy(scores.astype(np.float64), group)
            by_hand = [[sum(abs(int(x)) for x in scores[group, j, t]) for t in range(tau)] for j in range(3)]
            yield np.array_equal(some, by_hand), f"tau={tau}: a group's energy is {np.asarray(some).tolist()}"
            total += some
        yield np.array_equal(total, got), f"tau={tau}: the energies of two groups do not add up to the whole"
        of = np.array(energy, dtype=np.float64)
        half = tau // 2 + 1
        pairs = [("late mass", claim.late_mass(of), [_share(e, half) for e in energy])]
        for first in {1, half, tau}:
            pairs.append((f"late mass from {first}", claim.late_mass(of, first), [_share(e, first) for e in energy]))
        pairs.append(("centre of mass", claim.centre_of_mass(of), [_centre(e) for e in energy]))
        for level in LEVELS:
            steps = [Fraction(_reached(e, level)) for e in energy]
            pairs.append((f"horizon at {level}", claim.horizon(of, level), steps))
        flat = scores[0].tolist()
        pairs.append(("cancellation", claim.cancellation(scores[0].astype(float)), [_cancelled(x) for x in flat]))
        for what, found, wanted in pairs:
            said = [float(w) for w in wanted]
            yield np.allclose(found, said, rtol=1e-12, atol=1e-15), f"tau={tau}: {what} is {found}, not {said}"


@statement(
    "summaries",
    paper="Main text, SDI energy, late mass and influence horizon",
    method="float64",
    claim=OURS,
    mutants={
        "half the late mass": replace(OURS, late_mass=lambda e, first=None: ours.late_mass(e, first) / 2),
        "late mass from one step earlier": replace(
            OURS, late_mass=lambda e, first=None: ours.late_mass(e, max(1, (first or e.shape[-1] // 2 + 1) - 1))
        ),
        "signs kept in the energy": replace(OURS, energy=lambda s, group=None: np.abs(s.sum(axis=0))),
        "a group's energy is everybody's": replace(OURS, energy=lambda s, group=None: ours.energy(s)),
        "the energy of those outside the group": replace(
            OURS, energy=lambda s, group=None: ours.energy(s, None if group is None else ~group)
        ),
        "centre of mass counted from 0": replace(OURS, centre_of_mass=lambda e: ours.centre_of_mass(e) - 1),
        "horizon one step late": replace(OURS, horizon=lambda e, level: ours.horizon(e, level) + 1),
        "cancellation upside down": replace(OURS, cancellation=lambda s: 1 - ours.cancellation(s)),
    },
)
def summaries_are_their_definitions(claim: Claim, thorough: bool) -> Verdict:
    """Energy, late mass, centre of mass, horizon and cancellation are what their definitions say, step by step."""
    return Verdict.all(_cases(claim, thorough))
