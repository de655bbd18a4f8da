"""enumerate_all, where a class has it, lists every draw with its probability: what the exact verdicts rest on."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from sdi.validate.enumeration import enumerations
from sdi.validate.evidence import Evidence, Try, first_wrong, sketch_property
from sdi.validate.sketch_under_test import Subject, matrix_of

DRAWS = 50


@sketch_property(
    "listing",
    says="enumerate_all, if there is one, lists all that draw can draw, with probabilities that add up to one",
    remedy="yield (Fraction, sketch) for every value of the randomness; or leave enumerate_all out: the verdicts are "
    "then statistical",
    needs=("repeatable", "linear"),
)
def listing(subject: Subject) -> Evidence:
    every = enumerations(subject)
    if not every:
        has = hasattr(subject.sketch, "enumerate_all")
        why = "it lists none at the smallest sizes, or too many" if has else "there is no enumerate_all"
        return Evidence(0, why, applies=False)
    return first_wrong(_tries(subject), " and ".join(f"all {len(e.S)} draws of {e.shape} at m={e.m}" for e in every))


def _tries(subject: Subject) -> Iterator[Try]:
    for every in enumerations(subject):
        case = f"enumerate_all({every.shape}, {every.m})"
        wrong = f"the probabilities of all {len(every.S)} draws add up to {every.total}, not 1"
        yield (None if every.total == 1 else wrong), case
        known = {_key(S) for S in every.S}
        for k in range(DRAWS):
            listed = _key(matrix_of(subject.draw(k, every.shape, every.m))) in known
            yield (None if listed else f"draw(seed={k}) gives a sketch that enumerate_all does not list"), case


def _key(S: np.ndarray) -> bytes:
    return (np.round(S, 9) + 0.0).tobytes()  # + 0.0: no negative zeros
