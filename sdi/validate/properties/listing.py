"""enumerate_all, where a class has it, lists every draw with its probability: what the exact verdicts rest on.

So what is drawn must come up as often as listed: each sketch as a whole, and each entry of its matrix by itself, where
a small difference shows better.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from jaxtyping import Float

from sdi.validate.enumeration import Enumeration, enumerations
from sdi.validate.evidence import Evidence, sketch_property
from sdi.validate.sketch_under_test import Subject, matrix_of
from sdi.validate.statistics.frequency_test import as_often_as_listed
from sdi.validate.statistics.mean_test import ALPHA
from sdi.validate.trial import JUDGE

Array = np.ndarray
MORE = 5  # times as many draws as for the other verdicts: tiny sketches cost little


@sketch_property(
    "listing",
    says="enumerate_all, if there is one, lists all that draw can draw, as often as it is drawn",
    remedy="yield (Fraction, sketch) for every value of the randomness; or leave enumerate_all out: the verdicts are "
    "then statistical",
    needs=("repeatable", "linear"),
)
def listing(subject: Subject, alpha: float = ALPHA) -> Evidence:
    every = enumerations(subject)
    if not every:
        has = hasattr(subject.sketch, "enumerate_all")
        why = "it lists none at the smallest sizes, or too many" if has else "there is no enumerate_all"
        return Evidence(0, why, applies=False)
    n = MORE * subject.draws
    seen = " and ".join(f"all {len(e.S)} draws of {e.shape} at m={e.m}" for e in every) + f"; {n} drawn of each"
    for k, e in enumerate(every, start=1):
        for wrong in _wrongs(subject, e, n, alpha / len(every)):
            return Evidence(k * n, seen, wrong, f"enumerate_all({e.shape}, {e.m})", alpha, listed=True)
    return Evidence(n * len(every), seen, alpha=alpha, listed=True)


def _wrongs(subject: Subject, every: Enumeration, n: int, alpha: float) -> Iterator[str]:
    if every.total != 1:
        yield f"the probabilities of all {len(every.S)} draws add up to {every.total}, not 1"
    if not (every.weights > 0).all():
        yield f"a draw is listed with probability {every.weights.min():g}"
    place: dict[bytes, int] = {}
    cell = np.array([place.setdefault(_key(S), len(place)) for S in every.S])
    chances = np.bincount(cell, weights=every.weights)
    drawn = [matrix_of(subject.draw(JUDGE + k, every.shape, every.m)) for k in range(n)]
    seen = np.array([place.get(_key(S), -1) for S in drawn])
    if (seen < 0).any():
        first = subject.seed_of(JUDGE + int(np.argmax(seen < 0)))
        yield f"draw(seed={first}) gives a sketch that enumerate_all does not list"
        return
    entries = np.round(np.stack(drawn), 9).reshape(n, -1)
    each = alpha / (1 + entries.shape[1])
    if not as_often_as_listed(chances / chances.sum(), seen, each):
        yield f"the {len(chances)} different sketches do not come up as often in {n} draws as they are listed"
    listed = np.round(every.S, 9).reshape(len(every.S), -1)
    for k in range(entries.shape[1]):
        values, codes = np.unique(listed[:, k], return_inverse=True)
        p = np.bincount(codes.ravel(), weights=every.weights)
        if not as_often_as_listed(p / p.sum(), np.searchsorted(values, entries[:, k]), each):
            yield f"an entry of S is {_shares(entries[:, k], values)} in {n} draws, listed: {_listed(values, p)}"


def _shares(drawn: Float[Array, "N"], values: Float[Array, "K"]) -> str:
    return _listed(values, np.array([(drawn == value).mean() for value in values]))


def _listed(values: Float[Array, "K"], p: Float[Array, "K"]) -> str:
    return ", ".join(f"{value:g} with {share:.3g}" for value, share in zip(values, p, strict=True))


def _key(S: np.ndarray) -> bytes:
    return (np.round(S, 9) + 0.0).tobytes()  # + 0.0: no negative zeros
