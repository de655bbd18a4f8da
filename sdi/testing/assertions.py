"""Assertions for other people's tests: each says how often it is wrong, the smallest failing case, how to repeat it.

They are the checks of `sdi validate`: one implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sdi.inputs.batches import count_examples, take_examples
from sdi.inputs.looped_config import LoopedConfig as LoopedConfig
from sdi.loop import Loop
from sdi.sketch.sketch_map import SketchMap
from sdi.store.features import Features
from sdi.testing.repeat import repeat_line
from sdi.testing.seed import current_seed
from sdi.validate.agreement import differ
from sdi.validate.evidence import PROPERTIES, Evidence
from sdi.validate.looped_case import LoopedCase
from sdi.validate.properties.conserving import disagreement, not_conserved
from sdi.validate.properties.linear import linear
from sdi.validate.properties.unbiased import unbiased
from sdi.validate.properties.variance import within_bound
from sdi.validate.report import subject_of
from sdi.validate.sketch_under_test import Subject
from sdi.validate.statistics.mean_test import ALPHA

DRAWS = 4000  # which decide nothing that is exact
EXACT = "this check is not statistical: a right answer never fails it, beyond rounding"


def assert_linear(sketch: str | type, *, shape: tuple[int, ...] = (8, 6), m: int = 16, seed: int | None = None) -> None:
    """S(a x + b y) = a S(x) + b S(y), for each array of a batch as for one alone, at many sizes and magnitudes.

    sketch: a class, or its name or path. shape, m: what it sketches, and to how many numbers; tiny, odd, wide and
    large ones are tried, too. seed: of its draws, by default what `--sdi-seed` says. Exact, up to rounding.
    """
    subject = subject_of(sketch, shape, m, current_seed() if seed is None else seed, DRAWS)
    _judge("linear", subject, linear(subject), repeat_line("assert_linear", subject, None))


def assert_unbiased(
    sketch: str | type,
    *,
    shape: tuple[int, ...] = (8, 6),
    m: int = 16,
    seed: int | None = None,
    draws: int = 4000,
    alpha: float = ALPHA,
) -> None:
    """The mean of <S x, S y> is <x, y>. An unbiased sketch within its claim fails with probability alpha at most.

    sketch: a class, or its name or path. shape, m: what it sketches, and to how many numbers.
    seed: of its draws, by default what `--sdi-seed` says. draws: how many.
    A claim too large for so many draws fails, too, as not decided: a bias of half of |x| |y| could pass unseen.
    """
    subject = subject_of(sketch, shape, m, current_seed() if seed is None else seed, draws)
    _judge("unbiased", subject, unbiased(subject, alpha), repeat_line("assert_unbiased", subject, alpha))


def assert_within_bound(
    sketch: str | type,
    *,
    shape: tuple[int, ...] = (8, 6),
    m: int = 16,
    seed: int | None = None,
    draws: int = 4000,
    alpha: float = ALPHA,
) -> None:
    """Var <S x, S y> <= variance_factor() |x|^2 |y|^2 on the worst pairs found.

    sketch, shape, m, seed, draws: as in `assert_unbiased`. alpha: a true claim fails with this probability at most.
    """
    subject = subject_of(sketch, shape, m, current_seed() if seed is None else seed, draws)
    _judge("variance", subject, within_bound(subject, alpha), repeat_line("assert_within_bound", subject, alpha))


def assert_conserves(
    model: Any,
    loss: Callable[..., Any],
    batch: Mapping[str, Any],
    *,
    loop: Loop,
    sketch: SketchMap | None = None,
    backend: str = "fast",
    rtol: float | None = None,
) -> None:
    """Sketched steps of your model sum to the sketch of its whole gradient, parameter by parameter.

    model, loss, batch, loop, sketch: as `featurize` of the backend takes them. backend: "fast" or "reference".
    rtol: the relative error allowed; by default by the dtype of the gradients.
    """
    options: dict[str, Any] = {"loop": loop, "sketch": sketch, "backend_name": backend, "rtol": rtol}
    wrong = not_conserved(model, loss, batch, **options)
    if wrong is None:
        return
    n = count_examples(batch)
    for i in range(n if n > 1 else 0):
        alone = not_conserved(model, loss, take_examples(batch, slice(i, i + 1), n), **options)
        if alone is not None:
            raise AssertionError(_exact_message(alone, f"example {i} of {n} alone", sketch))
    raise AssertionError(_exact_message(wrong, f"the batch of {n}", sketch))


def assert_backends_agree(
    case: LoopedCase, sketch: SketchMap | None = None, *, dtype: str = "float64", rtol: float | None = None
) -> None:
    """The fast backend gives the reference's features for the same weights, batch and sketch.

    case: a model with its batch, from `looped_cases`. sketch: None compares whole gradients.
    dtype: that of the fast backend. rtol: the relative error allowed; by default by the dtype.

    >>> assert_backends_agree(LoopedCase.make(LoopedConfig(tau=2)))
    """
    wrong = disagreement(case, sketch, dtype, rtol=rtol)
    if wrong is None:
        return
    for i in range(case.n if case.n > 1 else 0):
        one = LoopedCase(case.model, case.example(i), case.seed)
        alone = disagreement(one, sketch, dtype, rtol=rtol)
        if alone is not None:
            raise AssertionError(_exact_message(alone, repr(one), sketch))
    raise AssertionError(_exact_message(wrong, repr(case), sketch))


def assert_same_features(fast: Features, slow: Features, rtol: float = 1e-10) -> None:
    """Two Features of one batch are the same, up to rounding.

    fast, slow: the two. rtol: the error of an example that is allowed, relative to the norm of its whole gradient.

    >>> from sdi.validate.looped_case import make_batch, make_model
    >>> from sdi.backends import room
    >>> reference, config = room("reference"), LoopedConfig(tau=2)
    >>> model, batch = make_model(config, seed=0), make_batch(config, seed=0)
    >>> found = reference.featurize(model, reference.token_cross_entropy, batch, loop=config.loop())
    >>> assert_same_features(found, found)
    """
    wrong = differ(fast, slow, rtol)
    if wrong is not None:
        raise AssertionError(f"{wrong}\n  {EXACT}")


def _judge(name: str, subject: Subject, evidence: Evidence, repeat: str) -> None:
    if not evidence.holds:
        says = next(p.says for p in PROPERTIES if p.name == name)
        raise AssertionError(evidence.message(says, subject.spec, repeat))


def _exact_message(wrong: str, case: str, sketch: SketchMap | None) -> str:
    how = "dense" if sketch is None else f"sketch {sketch.label}"
    return f"{wrong}\n  smallest failing case: {case}, {how}\n  {EXACT}"
