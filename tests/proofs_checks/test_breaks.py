"""A real break in a kernel, a score or a draw, and not only a wrong claim, turns its statement red."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import sdi.proofs_checks as proofs
from sdi.fast.sketching import compiled as native
from sdi.proofs_checks.backends import fast_agrees
from sdi.proofs_checks.backends.fast_agrees import kernels
from sdi.proofs_checks.backends.kernels_agree import jobs
from sdi.proofs_checks.independence import drawn as independence_drawn
from sdi.proofs_checks.variants import drawn_variants
from sdi.sketch.shipped.count_and_tensor import CountSketch
from sdi.validate.properties.scale import columns_of, draws_needed

pytestmark = pytest.mark.slow


needs_compiled = pytest.mark.skipif(native.library() is None, reason="the compiled kernels were not built")


@pytest.fixture(autouse=True)
def no_broken_truths() -> Iterator[None]:
    """What the reference answered with something broken is not kept for other tests."""
    yield
    fast_agrees._truths.cache_clear()


def rejected(name: str) -> None:
    (s,) = proofs.statements(name)
    report = proofs.run(s)
    assert not report.holds
    assert not report.detail.startswith("raised"), report.detail


def larger(at: int) -> Any:
    """A method, or a function, with one argument 1 % too large."""

    def change(true: Any) -> Any:
        return lambda *a, **k: true(*a[:at], 1.01 * a[at], *a[at + 1 :], **k)

    return change


def sixteen_tokens(true: Any) -> Any:
    return lambda self, kernel, acc, u, v, *rest: true(self, kernel, acc, u[:, :16], v[:, :16], *rest)


def squared(true: Any) -> Any:
    return lambda features, eta: true(features, eta**2)


def half(true: Any) -> Any:
    return lambda *a: true(*a) / 2


def tokens(most: int) -> Any:
    """A method that is given no more tokens than that."""
    return lambda true: lambda self, acc, u, v, work: true(self, acc, u[:, :most], v[:, :most], work)


def larger_at_odd_m(true: Any) -> Any:
    return lambda self, acc, u, v, work: true(self, acc, u * (1.01 if self.m % 2 else 1), v, work)


def in_two_halves(true: Any) -> Any:
    """The right numbers by too many transforms."""

    def twice(self: Any, acc: Any, u: Any, v: Any, work: Any) -> None:
        half = (u.shape[1] + 1) // 2
        for part in (slice(0, half), slice(half, None)):
            if u[:, part].shape[1]:
                true(self, acc, u[:, part], v[:, part], work)

    return twice


def token_by_token(true: Any) -> Any:
    return lambda self, u, v: sum(true(self, u[..., t : t + 1, :], v[..., t : t + 1, :]) for t in range(u.shape[-2]))


def a_little_more_plus(true: Any) -> Any:
    """P(+) = 0.501."""
    return lambda values: np.where((values >> np.uint64(1)) % np.uint64(500) == 0, 1, true(values)).astype(np.int8)


def last_bucket_missing(true: Any) -> Any:
    def bits(count: int, *words: object) -> Any:
        found = true(count, *words)
        return found - (found % np.uint64(2048) == 2047) if words[-1] == "h" else found

    return bits


def last_part_of_the_name(true: Any) -> Any:
    return lambda spec, name, *rest: true(spec, name.rpartition(".")[2], *rest)


def small_seeds(true: Any) -> Any:
    return lambda spec, name, shape, m, seed, family: true(spec, name, shape, m, seed % 2**16, family)


def no_rounding(true: Any) -> Any:
    return {}


def no_rounding_in_estimates(true: Any) -> Any:
    return lambda *a: [] if a[-1] == "estimated" else true(*a)


def all_steps_alike(true: Any) -> Any:
    return lambda x: np.broadcast_to(true(x).mean(axis=1, keepdims=True), true(x).shape)


def first_term_as_second(true: Any) -> Any:
    return lambda X, Y: (true(X, Y)[0], true(X, Y)[0])


BREAKS = [
    (
        "fast.sketching.tensor_sketch:TorchTensorSketch.add_outer",
        tokens(64),
        ("kernels.agree", "backends.agree"),
    ),
    ("fast.sketching.device_sketch:TorchSketch.add_outer", tokens(64), ("backends.agree", "kernels.agree")),
    ("fast.sketching.tensor_sketch:TorchTensorSketch.add_outer", larger_at_odd_m, ("kernels.agree", "backends.agree")),
    ("fast.sketching.tensor_sketch:TorchTensorSketch.add_by_fft", in_two_halves, ("work",)),
    ("sketch.shipped.count_and_tensor:TensorSketch.apply_outer", token_by_token, ("work",)),
    ("sketch.hashing:signs_of", a_little_more_plus, ("independence.fair",)),
    ("sketch.hashing:bits", last_bucket_missing, ("independence.fair",)),
    ("sketch.sketch_map:draw_one", last_part_of_the_name, ("independence.names_and_seeds",)),
    ("sketch.sketch_map:draw_one", small_seeds, ("independence.names_and_seeds",)),
    ("scores.standard_error:ROUNDING", no_rounding, ("rounding",)),
    ("scores.standard_error:rounding_variance", half, ("rounding",)),
    ("store.int8:bits", lambda true: lambda n, *words: np.full(n, 0x7FFF7FFF7FFF7FFF, np.uint64), ("rounding",)),
    ("scores.standard_error:_variances", no_rounding_in_estimates, ("rounding",)),
    ("scores.standard_error:standard_error_by_parameter", half, ("estimated_error",)),
    ("scores.estimated_error:MARGIN", lambda true: 1.0, ("estimated_error",)),
    ("sketch.shipped.count_and_tensor:coincidence_factor", half, ("estimated_error",)),
    ("fast.sketching.compiled:NativeTensorSketch.add_by_gemm", tokens(1024), ("kernels.agree",)),
    ("sketch.shipped.count_and_tensor:TensorSketch.variance_factor", half, ("tensor_sketch.bound",)),
    ("sketch.shipped.count_and_tensor:tensor_sketch_factor", half, ("tensor_sketch.bound", "concatenation.bound")),
    ("sketch.bounds:tensor_sketch_terms", first_term_as_second, ("tensor_sketch.cases",)),
    ("scores.summaries:_finite", lambda true: lambda *a: 1.01 * true(*a), ("masses",)),
    ("scores.summaries:_ratio", lambda true: lambda part, whole: true(part, whole) ** 2, ("masses", "summaries")),
    ("scores.products:phi_of", all_steps_alike, ("influence.asymmetry",)),
    ("fast.sketching.compiled:NativeTensorSketch.add_by_fft", larger(2), ("kernels.agree", "backends.agree")),
    ("fast.sketching.compiled:NativeTensorSketch.add_by_gemm", larger(2), ("kernels.agree", "backends.agree")),
    ("fast.sketching.compiled:NativeTensorSketch._call", sixteen_tokens, ("kernels.agree", "backends.agree")),
    ("fast.sketching.tensor_sketch:TorchTensorSketch.add_by_fft", larger(2), ("kernels.agree", "backends.agree")),
    ("fast.sketching.tensor_sketch:TorchTensorSketch.add_rows", larger(3), ("kernels.agree", "backends.agree")),
    ("fast.sketching.sinks:CountSink.whole", larger(2), ("backends.agree",)),
    ("fast.sketching.sinks:KeepSink.rows", larger(3), ("backends.agree",)),
    ("fast.sketching.sinks:TensorSink.finish", lambda true: lambda self: None, ("backends.agree",)),
    ("fast.exact:ScoreSink.outer", larger(2), ("exact_scores",)),
    ("fast:step_matrix", half, ("influence.backends",)),
    ("result.score_store:weigh", squared, ("influence.weights",)),
    ("result.score_store:standard_error", half, ("standard_error",)),
]


@pytest.mark.parametrize(("where", "change", "red"), BREAKS, ids=lambda part: part if isinstance(part, str) else "")
def test_a_break_turns_its_statements_red(
    monkeypatch: pytest.MonkeyPatch, where: str, change: Any, red: tuple[str, ...]
) -> None:
    if "Native" in where and native.library() is None:
        pytest.skip("the compiled kernels were not built")
    module, _, path = where.partition(":")
    owner = importlib.import_module(f"sdi.{module}")
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    monkeypatch.setattr(owner, name, change(getattr(owner, name)))
    for statement in red:
        rejected(statement)


def test_rows_and_columns_that_share_their_words_turn_the_drawn_sketches_red(monkeypatch: pytest.MonkeyPatch) -> None:
    true = CountSketch._of_words.__func__  # type: ignore[attr-defined]
    tied = classmethod(lambda cls, *a: true(cls, *(word for word in a if word not in ("rows", "cols"))))
    monkeypatch.setattr(CountSketch, "_of_words", tied)
    rejected("drawn_sketches")


def test_normal_numbers_that_are_too_large_turn_the_drawn_variants_red(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdi.sketch.shipped import gaussian as sketch_gaussian

    true = sketch_gaussian.normals
    monkeypatch.setattr(sketch_gaussian, "normals", lambda *a: (1.05 * true(*a)).astype(np.float32))
    drawn_variants._drawn.cache_clear()
    try:
        rejected("drawn_variants")
    finally:
        drawn_variants._drawn.cache_clear()


# what the checks rest on


@needs_compiled
def test_the_kernels_are_called_by_every_route_in_both_precisions_and_with_many_tokens() -> None:
    met = {
        (job.kernel, job.route, job.dtype)
        for job in jobs(thorough=False)
        if job.v.shape[1] >= 40 and job.kernel != "twin"
    }
    assert len(met) == len(kernels()) * 5 * 2 == 20


def test_even_patterns_pass_and_uneven_ones_do_not() -> None:
    rng = np.random.default_rng(0)
    assert independence_drawn.evenness(rng.integers(16, size=1000)) > 1e-6
    assert independence_drawn.evenness(rng.integers(14, size=1000)) < 1e-9


def test_columns_on_the_border_are_looked_at_whatever_the_size() -> None:
    rng = np.random.default_rng(0)
    assert columns_of((3, 4), rng) == list(range(12))
    some = columns_of((13, 85), rng)
    places = np.arange(13 * 85).reshape(13, 85)
    assert {*places[0], *places[-1], *places[:, 0], *places[:, -1]} <= set(some)
    assert len(some) < 256
    assert len(columns_of((5000,), rng)) < 300


def test_enough_draws_show_every_column() -> None:
    """A mask of one entry of four has a factor of 3: each column is zero three times out of four, and no oftener."""
    n, columns, alpha = draws_needed(3.0, 4, 1e-3), 4, 1e-3
    assert columns * 0.75**n < alpha
    assert draws_needed(3.0, 4, 1e-9) > n
