"""The fast backend against the reference: the same verbs, the same signatures, the same numbers."""

from __future__ import annotations

import inspect
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from fast_cases import assert_near, leaving_as_it_came
from hypothesis import given, settings
from hypothesis import strategies as st

import sdi
from sdi import Features, Loop, LoopedConfig, SketchMap, backend, fast, reference
from sdi.backends import Backend, Featurize
from sdi.fast import featurize, token_cross_entropy
from sdi.fast.sketching.tensor_sketch import TorchTensorSketch
from sdi.testing import LoopedCase, assert_same_features, looped_cases, make_batch, make_model

SETTINGS = settings(max_examples=20, deadline=None, derandomize=True, database=None)
VERBS = ("tracin", "sdi", "sdi_train", "step_matrix")
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5}


def both(case: LoopedCase, dtype: torch.dtype = torch.float64, **options: Any) -> tuple[Features, Features]:
    """The same features from the fast backend and from the reference."""
    shared = {name: options[name] for name in ("sketch", "steps", "ids") if name in options}
    model, batch = case.torch(str(dtype).removeprefix("torch."))
    loop = options.pop("loop", case.config.loop())
    with leaving_as_it_came(model):
        ours = featurize(model, token_cross_entropy, batch, loop=loop, **options)
    return ours, reference.featurize(case.model, reference.token_cross_entropy, case.batch, loop=loop, **shared)


sketches = st.sampled_from(
    [("table", 7), ("table", 8), ("table", 1), ("polynomial", 8), ("polynomial", 16), ("table", 33)]
)


def test_both_backends_export_the_verbs_of_the_protocol() -> None:
    for name in sdi.backends.BACKENDS:
        module = backend(name)
        for verb in Backend.__annotations__:
            assert callable(getattr(module, verb))
            assert verb in module.__all__  # type: ignore[attr-defined]
    for verb in (*VERBS, "with_weights", "weights_kept", "body_shapes"):
        ours, theirs = (inspect.signature(getattr(module, verb)).parameters for module in (fast, reference))
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in theirs.values()
        ]


def test_featurize_takes_what_the_reference_takes_and_more_by_keyword_only() -> None:
    def of(f: Any) -> list[tuple[Any, ...]]:
        return [(p.name, p.kind, p.default) for p in inspect.signature(f).parameters.values()]

    ours, theirs = of(fast.featurize), of(reference.featurize)
    assert ours[: len(theirs)] == theirs == of(Featurize.__call__)[1:]
    assert len(ours) > len(theirs)
    for _, kind, default in ours[len(theirs) :]:
        assert kind is inspect.Parameter.KEYWORD_ONLY
        assert default is not inspect.Parameter.empty


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_the_model_gives_the_losses_of_the_reference_and_weights_move_both_ways(case: LoopedCase) -> None:
    model, batch = case.torch()
    ours = token_cross_entropy(model, batch).detach().numpy()
    np.testing.assert_allclose(ours, reference.token_cross_entropy(case.model, case.batch), rtol=1e-12)
    assert {name: w.shape for name, w in model.weights().items()} == case.config.shapes()
    for name, w in model.weights().items():
        np.testing.assert_array_equal(w, case.model.weights[name])


@pytest.mark.slow
@SETTINGS
@given(looped_cases(), st.booleans(), st.sampled_from(["hooks", "recompute"]))
def test_dense_features_agree(case: LoopedCase, steps: bool, memory: str) -> None:
    assert_same_features(*both(case, steps=steps, memory=memory, ids=["a", "b", "c"][: case.n]))


@pytest.mark.slow
@SETTINGS
@given(looped_cases(), st.booleans(), st.sampled_from(["hooks", "recompute"]), sketches)
def test_sketched_features_agree(case: LoopedCase, steps: bool, memory: str, kind: tuple[str, int]) -> None:
    family, m = kind
    sketch = SketchMap.draw(case.body, m=m, seed=5, family=family)
    assert_same_features(*both(case, steps=steps, memory=memory, sketch=sketch))


@pytest.mark.slow
@pytest.mark.parametrize("route", ["fft", "gemm"])
@settings(SETTINGS, max_examples=8)
@given(looped_cases(), st.booleans(), sketches)
def test_both_routes_to_a_sketch_agree(route: str, case: LoopedCase, steps: bool, kind: tuple[str, int]) -> None:
    family, m = kind
    sketch = SketchMap.draw(case.body, m=m, seed=5, family=family)
    with patch.object(TorchTensorSketch, "route", lambda self, tokens: route):
        assert_same_features(*both(case, steps=steps, sketch=sketch))


@pytest.mark.slow
@settings(SETTINGS, max_examples=12)
@given(looped_cases(qk_norm=False), st.sampled_from([None, 7, 16]))
def test_single_precision_agrees_to_single_precision(case: LoopedCase, m: int | None) -> None:
    sketch = None if m is None else SketchMap.draw(case.body, m=m)
    ours, theirs = both(case, torch.float32, sketch=sketch)
    assert ours.values.dtype == np.float32
    assert_same_features(ours, theirs, TOLERANCE[torch.float32])


@pytest.mark.slow
@settings(SETTINGS, max_examples=8)
@given(looped_cases(coda=1, bptt=None, state="embedding"))
def test_everything_as_the_body_agrees_with_what_enters_outside(case: LoopedCase) -> None:
    names = [name for name in case.config.shapes() if not name.startswith("positions")]
    loop = Loop(body=names, step="inject", end="coda")
    ours, theirs = both(case, loop=loop, memory="hooks")
    assert ours.outside is not None
    assert_same_features(ours, theirs)


@pytest.mark.slow
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_scores_agree(verb: str, dtype: torch.dtype) -> None:
    config = LoopedConfig(vocab=4, classes=3, d=8, tau=3, loop_norm=True)
    parts = [
        both(LoopedCase(make_model(config, 0), make_batch(config, seed, n=n)), dtype) for seed, n in ((1, 3), (2, 2))
    ]
    (train, slow_train), (query, slow_query) = parts
    theirs = getattr(reference, verb)(slow_train, slow_query)
    size = np.linalg.norm(slow_train.values) * np.linalg.norm(slow_query.values)
    for ours in (getattr(fast, verb)(train, query), getattr(fast, verb)(train, slow_query)):
        assert_near(ours, theirs, np.full(len(theirs), size), verb, TOLERANCE[dtype])


def test_scores_take_arrays_that_may_not_be_written() -> None:
    g, phi = np.ones((2, 5)), np.ones((1, 3, 5), np.float32)
    g.flags.writeable = phi.flags.writeable = False
    np.testing.assert_array_equal(fast.sdi(g, phi), np.full((2, 1, 3), 5.0))
    np.testing.assert_array_equal(fast.sdi_train(phi, g), np.full((1, 2, 3), 5.0))
    with pytest.raises(ValueError, match="one width D, got 5 and 4"):
        fast.tracin(g, np.ones((2, 4)))


def test_scores_of_long_single_precision_rows_lose_nothing() -> None:
    """A float32 product over a million columns at once is further off in some BLAS libraries."""
    x = np.random.default_rng(0).standard_normal((3, 1 << 20)).astype(np.float32)
    exact = x.astype(np.float64) @ x.T.astype(np.float64)
    assert np.linalg.norm(fast.tracin(x, x) - exact) <= 1e-6 * np.linalg.norm(exact)
