"""What an erratum is: a claim of the paper, its correction, and a computation that decides both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..machinery.moments import every_hash, tensor_sketch_moments

Array = np.ndarray
Decision = tuple[bool, bool, str]  # does what is written hold, does the correction hold, evidence


@dataclass(frozen=True)
class Erratum:
    """One misprint or wrong claim. `decide` computes (written holds, correction holds, evidence).

    `rests_on` says what a verdict takes for granted that the paper does not print: a configuration that we had to
    rebuild, or one of several readings. Most take nothing.
    """

    name: str
    where: str
    written: str
    true: str
    how: str
    decide: Callable[[], Decision]
    rests_on: str = ""

    def as_row(self) -> dict[str, str | bool]:
        """Everything as plain data, decided now."""
        written_holds, true_holds, evidence = self.decide()
        words = {k: getattr(self, k) for k in ("name", "where", "written", "true", "how", "rests_on")}
        return {**words, "written_holds": written_holds, "true_holds": true_holds, "evidence": evidence}


registered: dict[str, list[Erratum]] = {}  # by the module that holds them


def erratum(
    name: str, *, where: str, written: str, true: str, how: str, rests_on: str = ""
) -> Callable[[Callable[[], Decision]], Callable[[], Decision]]:
    """Register what decides an erratum."""

    def register(decide: Callable[[], Decision]) -> Callable[[], Decision]:
        def decided() -> Decision:
            written_holds, true_holds, evidence = decide()
            return bool(written_holds), bool(true_holds), evidence

        registered.setdefault(decide.__module__, []).append(Erratum(name, where, written, true, how, decided, rests_on))
        return decide

    return register


def variance_of(X: Array, Y: Array, m: int) -> Fraction:
    """Of <T X, T Y>, over every TensorSketch of this small size."""
    rows, cols = every_hash(X.shape[0], m), every_hash(X.shape[1], m)
    form = tensor_sketch_moments(rows, cols, m).variance
    return Fraction(int(form.numerators(X.reshape(1, -1), Y.reshape(1, -1))[0, 0]), form.denominator)
