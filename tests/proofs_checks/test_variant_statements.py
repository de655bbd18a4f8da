"""The statements on the shipped variants: all there, and a wrong factor or scale turns them red."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest

import sdi.proofs_checks as proofs
from sdi.proofs_checks.machinery import projections
from sdi.proofs_checks.machinery.agreement import ignores_zeros, smallest_factor
from sdi.proofs_checks.machinery.moments import moments_of_matrices
from sdi.sketch.load import SHIPPED
from sdi.sketch.shipped.gaussian import GaussianSketch
from sdi.sketch.shipped.hadamard import HadamardSketch
from sdi.sketch.shipped.kronecker import KroneckerSketch
from sdi.sketch.shipped.mask import MaskSketch
from sdi.sketch.shipped.rademacher import RademacherSketch
from sdi.sketch.shipped.sparse import SparseSketch

CLASSES: dict[str, Any] = {
    "gaussian": GaussianSketch, "rademacher": RademacherSketch, "sparse": SparseSketch, "kronecker": KroneckerSketch,
    "hadamard": HadamardSketch, "mask": MaskSketch,
}  # fmt: skip


def test_every_shipped_sketch_has_statements_on_its_variance() -> None:
    names = {s.name for s in proofs.statements()}
    for kind in SHIPPED:
        of = {"tensor": "tensor_sketch"}.get(kind, kind)
        wanted = {"exact.no_error"} if kind == "exact" else {f"{of}.variance", f"{of}.bound"}
        assert wanted <= names
    assert {"mixed_maps", "drawn_variants"} <= names


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("change", [0.5, 1.1])
def test_a_factor_that_is_too_small_or_too_large_turns_its_bound_red(
    monkeypatch: pytest.MonkeyPatch, kind: str, change: float
) -> None:
    true = CLASSES[kind].variance_factor
    monkeypatch.setattr(CLASSES[kind], "variance_factor", lambda self: change * true(self))
    (s,) = proofs.statements(f"{kind}.bound")
    report = proofs.run(s)
    assert not report.holds
    assert not report.detail.startswith("raised"), report.detail


@pytest.mark.parametrize("kind", CLASSES)
def test_a_wrong_scale_in_the_class_turns_its_variance_red(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    true = CLASSES[kind].apply
    monkeypatch.setattr(CLASSES[kind], "apply", lambda self, x: 2 * true(self, x))
    (s,) = proofs.statements(f"{kind}.variance")
    assert "the mean's coefficients" in proofs.run(s).detail


def test_moments_of_columns_are_those_of_all_matrices() -> None:
    law = projections.sparse_column(2, 2)
    matrices = [np.stack(columns, axis=1) for columns in product(law.vectors, repeat=4)]  # times sqrt(2)
    written, counted = moments_of_matrices(matrices).second, projections.gram_of_columns(law).moments.second
    assert np.array_equal(written.c * counted.denominator, 4 * counted.c * written.denominator)
    assert written.c.any()


def test_three_points_have_the_moments_of_a_normal_number() -> None:
    law = projections.gaussian_column(1)
    weights, t = law.weights / law.weights.sum(), law.vectors[:, 0] * 3**0.5
    assert [round(float(weights @ t**k), 12) for k in range(6)] == [1, 0, 1, 0, 3, 0]


def test_draws_that_are_not_whole_or_not_all_are_refused() -> None:
    draws = list(RademacherSketch.enumerate_all((2,), 2))
    with pytest.raises(ValueError, match="must be whole"):
        projections.moments_of_draws(draws, Fraction(3))
    with pytest.raises(ValueError, match="must sum to 1, got 15/16"):
        projections.moments_of_draws(draws[1:], Fraction(2))


def test_a_formula_that_counts_entries_does_not_ignore_zeros() -> None:
    assert ignores_zeros(lambda x, y: (x * y).sum(-1), (3,), (5,), 1)[0]
    assert not ignores_zeros(lambda x, y: (x * y).mean(-1), (3,), (5,), 1)[0]


@pytest.mark.parametrize(("claimed", "holds"), [(0.5, [True, True]), (0.3, [False, False]), (0.6, [True, False])])
def test_only_the_smallest_factor_passes(claimed: float, holds: list[bool]) -> None:
    found = smallest_factor(claimed, Fraction(1, 2), [("ones", Fraction(4, 9))], "here")
    assert [bool(ok) for ok, _ in found] == holds
