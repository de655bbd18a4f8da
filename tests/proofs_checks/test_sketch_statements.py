"""The statements on sketches hold, their mutants are rejected, and the harness and its exact helpers can fail."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sdi.proofs_checks as proofs
from sdi.proofs_checks import Verdict, statement
from sdi.proofs_checks.backends.work import Counted, counted
from sdi.proofs_checks.machinery import biquadratic, moments
from sdi.proofs_checks.machinery.statement import _registry
from sdi.proofs_checks.tensor_sketch.bound import certificate
from sdi.sketch import bounds, hashing
from sdi.sketch.shipped.count_and_tensor import CountSketch, TensorSketch

NAMES = (
    "storage", "work", "drawn_sketches", "count_sketch.unbiased", "count_sketch.variance", "count_sketch.bound",
    "tensor_sketch.convolution", "tensor_sketch.fft", "tensor_sketch.linear", "tensor_sketch.unbiased",
    "tensor_sketch.cases", "tensor_sketch.variance", "tensor_sketch.coincidence", "tensor_sketch.bound", "older_bound",
    "tightness.approached", "tightness.never_attained", "smallest_m", "independence.suffices", "independence.drawn",
    "independence.fair", "independence.names_and_seeds", "independence.needed", "concatenation.variances_add",
    "concatenation.bound", "checkpoints.correlated", "checkpoints.bound", "checkpoints.eta", "standard_error",
    "estimated_error", "rounding", "int8.unbiased", "errata",
)  # fmt: skip
OURS = [s for s in proofs.statements() if s.name in NAMES]


def test_every_statement_on_sketches_is_registered_in_the_order_of_the_paper() -> None:
    assert tuple(s.name for s in OURS) == NAMES


@pytest.mark.parametrize(
    ("name", "function", "broken"),
    [
        ("tensor_sketch.variance", "coincidence", lambda m: 2),
        ("tensor_sketch.variance", "tensor_sketch_terms", lambda X, Y: (0 * X.sum((-1, -2)) * Y.sum((-1, -2)),) * 2),
        ("tensor_sketch.bound", "coincidence", lambda m: 1),
        ("independence.suffices", "coincidence", lambda m: 1),
    ],
)
def test_a_break_in_the_library_turns_its_statement_red(
    monkeypatch: pytest.MonkeyPatch, name: str, function: str, broken: Any
) -> None:
    monkeypatch.setattr(bounds, function, broken)
    (s,) = proofs.statements(name)
    assert not proofs.run(s).holds


def test_a_break_in_the_field_turns_the_independence_red(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdi.proofs_checks.independence.suffices import polynomials

    polynomials.cache_clear()
    monkeypatch.setattr(hashing, "field_product", lambda a, b, k: a * b & np.uint64((1 << k) - 1))
    try:
        (s,) = proofs.statements("independence.suffices")
        assert not proofs.run(s).holds
    finally:
        polynomials.cache_clear()


# the harness


def test_no_case_at_all_is_a_failure() -> None:
    assert Verdict.all([]) == Verdict(False, 0, "no case was tried")


def test_verdicts_combine_and_the_first_failure_speaks() -> None:
    good, bad = Verdict(True, 2, "a"), Verdict(False, 3, "b")
    assert good & good == Verdict(True, 4, "a; a")
    assert good & bad == Verdict(False, 5, "b")
    assert bad & good == bad


def test_a_statement_without_mutants_is_refused() -> None:
    with pytest.raises(ValueError, match="needs at least one mutant"):
        statement("test.no_mutants", paper="", method="exact", claim=1, mutants={})


def test_a_statement_that_says_nothing_or_has_no_method_is_refused() -> None:
    with pytest.raises(ValueError, match="must say in its docstring"):
        statement("test.silent", paper="", method="exact", claim=1, mutants={"x": 2})(
            lambda claim, thorough: Verdict(True, 1)
        )
    with pytest.raises(ValueError, match="method of"):
        statement("test.method", paper="", method="guess", claim=1, mutants={"x": 2})  # type: ignore[arg-type]


def test_two_statements_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="two statements named 'errata'"):
        statement("errata", paper="", method="exact", claim=1, mutants={"x": 2})(proofs.statements("errata")[0].check)


def test_a_mutant_that_raises_is_not_rejected() -> None:
    def check(claim: int, thorough: bool) -> Verdict:
        return Verdict.all([(1 / claim == 1, "not one")])

    s = proofs.Statement("test.raises", "", "exact", "1/x = 1", check, 1, {"zero": 0, "two": 2})
    assert proofs.run(s).holds
    assert proofs.run(s, mutant="two").holds
    raised = proofs.run(s, mutant="zero")
    assert not raised.holds
    assert "ZeroDivisionError" in raised.detail


def test_a_users_statements_are_loaded_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from sdi.proofs_checks import Verdict, statement\n"
        "@statement('test.mine', paper='', method='exact', claim=4, mutants={'five': 5})\n"
        "def check(claim, thorough):\n"
        "    '''2 + 2 = 4'''\n"
        "    return Verdict.all([(2 + 2 == claim, str(claim))])\n"
    )
    try:
        (s,) = proofs.load_statements(file)
        assert proofs.run(s).holds
        assert proofs.run(s, mutant="five").holds
    finally:
        _registry.pop("test.mine", None)


def test_a_file_without_statements_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "empty.py"
    file.write_text("")
    with pytest.raises(ValueError, match="registers no statement"):
        proofs.load_statements(file)


# exact helpers


def _form(n: int, seed: int) -> biquadratic.Form:
    return biquadratic.Form(np.random.default_rng(seed).integers(-3, 4, (n * n, n * n)), 1)


def _value(form: biquadratic.Form, X: Any, Y: Any) -> int:
    n = len(X)
    c = form.c.reshape(n, n, n, n)
    terms = product(range(n), repeat=4)
    return sum(int(c[u, w, v, z]) * int(X[u] * X[w] * Y[v] * Y[z]) for u, w, v, z in terms)


def test_a_form_takes_the_values_its_coefficients_say() -> None:
    form = _form(3, 0)
    X, Y = np.random.default_rng(1).integers(-4, 5, (2, 5, 3))
    assert form.numerators(X, Y).tolist() == [[_value(form, x, y) for y in Y] for x in X]


def test_points_fix_a_biquadratic_form() -> None:
    """The map from the coefficients of the monomials to the values at the points is invertible."""
    for n in (1, 2, 3, 4):
        P = biquadratic.points(n)
        monomials = np.stack([P[:, u] * P[:, w] for u in range(n) for w in range(u, n)], axis=1)
        assert abs(round(np.linalg.det(monomials))) == 1


def test_every_single_monomial_is_detected() -> None:
    """A form that differs from zero in one coefficient, of X_u X_w Y_v Y_z, does not pass for zero."""
    n = 3
    P = biquadratic.points(n)
    zero = biquadratic.Form(np.zeros((n * n, n * n), dtype=np.int64), 1)
    for u, w, v, z in product(range(n), repeat=4):

        def claim(X: Any, Y: Any, at: tuple[int, ...] = (u, w, v, z)) -> Any:
            return X[..., at[0]] * X[..., at[1]] * Y[..., at[2]] * Y[..., at[3]]

        assert biquadratic.disagreement(zero, claim, (n,), P, P)
    assert not biquadratic.disagreement(zero, lambda X, Y: 0 * X.sum(-1) * Y.sum(-1), (n,), P, P)


def test_a_float_that_is_not_whole_does_not_pass() -> None:
    one = biquadratic.Form(np.ones((1, 1), dtype=np.int64), 1)
    P = biquadratic.points(1)
    assert not biquadratic.disagreement(one, lambda X, Y: (X * Y)[..., 0] ** 2 / 1, (1,), P, P)
    assert biquadratic.disagreement(one, lambda X, Y: (X * Y)[..., 0] ** 2 + 1e-9, (1,), P, P)


def test_large_forms_are_evaluated_without_overflow() -> None:
    form = biquadratic.Form(np.full((1, 1), 2**40), 1)
    big = np.array([[2**10]])
    assert form.numerators(big, big)[0, 0] == 2**80


@pytest.mark.parametrize("m", [1, 2, 3])
def test_counted_moments_are_those_of_the_sketches_written_out(m: int) -> None:
    family = moments.every_hash(2, m)
    counted_ = moments.tensor_sketch_moments(family, family, m)
    pairs = product(moments.every_count_sketch(2, m), repeat=2)
    written = moments.moments_of_matrices([TensorSketch(rows, cols).dense() for rows, cols in pairs])
    assert counted_.second.denominator == written.second.denominator
    assert np.array_equal(counted_.second.c, written.second.c)
    assert np.array_equal(counted_.mean, written.mean)


def test_moments_of_one_sketch_are_a_plain_average() -> None:
    x, y = np.array([1, -2, 3]), np.array([2, 0, -1])
    values = [int(s.apply(x) @ s.apply(y)) for s in moments.every_count_sketch(3, 2)]
    n = len(values)
    variance = Fraction(sum(v * v for v in values), n) - Fraction(sum(values), n) ** 2
    form = moments.count_sketch_moments(moments.every_hash(3, 2), 2).variance
    assert Fraction(int(form.numerators(x[None], y[None])[0, 0]), form.denominator) == variance


def test_the_certificate_is_never_negative_in_floats_either() -> None:
    X, Y = np.random.default_rng(0).standard_normal((2, 200, 5, 3))
    for m in (1, 2, 7):
        room = certificate(X, Y, m)
        norms = (X**2).sum((1, 2)) * (Y**2).sum((1, 2))
        gap = m * m * (bounds.tensor_sketch_factor(m) * norms - bounds.tensor_sketch_variance(X, Y, m))
        assert (room > 0).all()
        np.testing.assert_allclose(room, gap, rtol=1e-10)


def test_counted_numbers_count() -> None:
    numbers = np.array([Counted(1.0), Counted(2.0), Counted(3.0)], dtype=object)
    sketch = CountSketch(h=np.array([0, 0, 1]), s=np.array([1, -1, 1]), m=2)
    values, work = counted(lambda s, x: s.apply(x), sketch, numbers)
    assert values.tolist() == [-1, 3]
    assert (work.products, work.additions) == (3, 3)


# errata


@pytest.mark.slow
def test_verdicts_that_take_something_for_granted_say_so() -> None:
    granted = {e.name for e in proofs.all_errata() if e.rests_on}
    assert {"memory of the looped GPT", "index of the convolution"} <= granted
    assert f"{len(granted)} of which rest on" in proofs.run(proofs.statements("errata")[0]).detail


@pytest.mark.slow
def test_errata_are_told_apart_and_say_all_they_should() -> None:
    rows = [e.as_row() for e in proofs.all_errata()]
    assert len({row["name"] for row in rows}) == len(rows) >= 12
    for row in rows:
        assert all(row[key] for key in ("name", "where", "written", "true", "how", "evidence")), row
        rests_on = str(row["rests_on"])
        assert not rests_on or "reconstructed" in rests_on or "reading" in rests_on
        assert row["written_holds"] is False, row
        assert row["true_holds"] is True, row
