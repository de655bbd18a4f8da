"""Places where the paper is not right as printed, each decided by computing, never by reading.

An erratum says where, what is written (in our words), what is true, and how that is decided. `decide` computes, when
asked, whether the written claim holds and whether the correction does. It stays in the list only as long as the
first is refuted and the second confirmed: that is the statement "errata". What a verdict takes for granted that the
paper does not print, a configuration or a reading, stands with it (`rests_on`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from sdi.sketch.shipped.count_and_tensor import CountSketch

from ..machinery.statement import Verdict, statement
from . import definitions as errata_definitions
from . import main_text as errata_main_text
from . import proofs as errata_proofs
from .erratum import Decision, Erratum, registered


def all_errata() -> list[Erratum]:
    """All of them, in the order of the paper."""
    order = (errata_main_text, errata_definitions, errata_proofs)
    return [e for module in order for e in registered[module.__name__]]


def _fake() -> list[Erratum]:
    """A list with a claim that is in fact true as written."""

    def decide() -> Decision:
        m, d = 4, 3
        ones = CountSketch(h=np.zeros(d, dtype=np.int64), s=np.ones(d, dtype=np.int8), m=m).apply(np.ones(d))
        return ones.shape == (m,), ones.shape == (m,), f"a CountSketch has {ones.size} entries"

    return [*all_errata(), Erratum("fake", "nowhere", "CountSketch has m entries", "the same", "its shape", decide)]


def _wrong_correction() -> list[Erratum]:
    """The written claim offered as its own correction."""
    first = all_errata()[0]

    def decide() -> Decision:
        written_holds, _, evidence = first.decide()
        return written_holds, written_holds, evidence

    return [Erratum(first.name, first.where, first.written, first.written, first.how, decide)]


def _cases(listed: Iterable[Erratum]) -> Iterable[tuple[Any, str]]:
    for e in listed:
        written_holds, true_holds, evidence = e.decide()
        yield not written_holds, f"{e.name}: what is written holds: {evidence}"
        yield true_holds, f"{e.name}: the correction does not hold: {evidence}"


@statement(
    "errata",
    paper="throughout",
    method="exact",
    claim=all_errata,
    mutants={"a claim that is true as written": _fake, "a wrong correction": _wrong_correction},
)
def errata_are_decided(claim: Callable[[], list[Erratum]], thorough: bool) -> Verdict:
    """Every erratum's written claim is refuted by computing, and its correction confirmed."""
    listed = claim()
    granted = sum(bool(e.rests_on) for e in listed)
    return Verdict.all(
        _cases(listed), f"{len(listed)} errata, {granted} of which rest on a reconstruction or a reading"
    )
