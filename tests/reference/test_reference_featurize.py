"""Features of the reference backend, and its scores against those of the core."""

from __future__ import annotations

import inspect
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from reference_cases import assert_close

from sdi import Features, Loop, LoopedConfig, SketchMap, SketchMismatch, backend, reference
from sdi.backends import Featurize
from sdi.reference import LoopedTransformer, featurize, gradient, step_gradients, token_cross_entropy
from sdi.scores import products as scores
from sdi.testing import LoopedCase, looped_cases, make_batch, make_model

SETTINGS = settings(max_examples=20, deadline=None, derandomize=True, database=None)


def everything(case: LoopedCase) -> Loop:
    return Loop(body=list(case.config.shapes()), step="inject", end="coda")


def flat(arrays: dict[str, np.ndarray], names: list[str], lead: int) -> np.ndarray:
    return np.concatenate([arrays[name].reshape(*arrays[name].shape[:lead], -1) for name in names], axis=-1)


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_dense_features_are_the_step_gradients_side_by_side(case: LoopedCase) -> None:
    phi = step_gradients(case.model, token_cross_entropy, case.batch)
    features = featurize(
        case.model, token_cross_entropy, case.batch, loop=case.config.loop(), ids=["x", "y", "z"][: case.n]
    )
    np.testing.assert_array_equal(features.values, flat(phi, list(phi), 2))
    assert features.outside is None
    assert features.ids == ("x", "y", "z")[: case.n]
    assert features.sketch.endswith("(dense)")
    np.testing.assert_array_equal(features.tau, case.tau)
    assert not any(features.phi[i, tau:].any() for i, tau in enumerate(case.tau))
    for name, grad in phi.items():
        np.testing.assert_array_equal(features.phi[..., features.block(name)], flat({name: grad}, [name], 2))


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_steps_and_outside_are_the_whole_gradient_of_the_whole_model(case: LoopedCase) -> None:
    g = gradient(case.model, token_cross_entropy, case.batch)
    features = featurize(case.model, token_cross_entropy, case.batch, loop=everything(case))
    assert features.outside is not None
    assert_close(features.phi.sum(axis=1) + features.outside, flat(g, list(g), 1))
    for name in g:
        part = features.block(name)
        inside = name.split(".")[0] in ("inject", "core", "loop_norm")
        assert not (features.outside if inside else features.phi)[..., part].any()
        if inside:
            assert_close(features.phi[..., part].sum(axis=1), flat(g, [name], 1), name)
        else:
            np.testing.assert_array_equal(features.outside[:, part], flat(g, [name], 1))


@pytest.mark.slow
@SETTINGS
@given(looped_cases())
def test_sketched_features_are_the_sketch_of_the_dense_ones(case: LoopedCase) -> None:
    loop = everything(case)
    sketch = SketchMap.draw(case.config.shapes(), m=7, seed=3)
    dense = featurize(case.model, token_cross_entropy, case.batch, loop=loop)
    sketched = featurize(case.model, token_cross_entropy, case.batch, loop=loop, sketch=sketch)
    summed = featurize(case.model, token_cross_entropy, case.batch, loop=loop, sketch=sketch, steps=False)
    parts = {b.name: dense.values[..., b.start : b.stop].reshape(case.n, -1, *b.shape) for b in dense.blocks}
    by_matrix = np.concatenate(
        [
            np.einsum("mp,ntp->ntm", sketch.sketches[b.name].dense(), dense.values[..., b.start : b.stop])
            for b in dense.blocks
        ],
        -1,
    )
    assert_close(sketched.values, sketch.apply(parts))
    assert_close(sketched.values, by_matrix)
    assert sketched.blocks == sketch.blocks == summed.blocks
    assert sketched.sketch == sketch.label == summed.sketch
    assert summed.outside is None
    assert not summed.has_steps
    assert_close(summed.g, sketched.g)


def test_a_body_inside_the_loop_has_the_same_features_beside_one_outside() -> None:
    config = LoopedConfig(vocab=4, classes=3, d=4, tau=2, coda=1, prelude=1)
    model, batch = make_model(config, seed=0), make_batch(config, seed=1)
    inner = featurize(model, token_cross_entropy, batch, loop=Loop("core", "inject"))
    both = featurize(model, token_cross_entropy, batch, loop=Loop(["core", "coda", "head.weight"], "inject", "coda"))
    assert both.outside is not None
    for block in inner.blocks:
        np.testing.assert_array_equal(both.phi[..., both.block(block.name)], inner.phi[..., inner.block(block.name)])


def test_a_body_used_after_the_loop_needs_the_loop_to_end() -> None:
    config = LoopedConfig(vocab=4, classes=3, d=4, tau=2, coda=1)
    model, batch = make_model(config, seed=0), make_batch(config, seed=1)
    with pytest.raises(ValueError, match=r"loop.end must be 'coda' when the body holds 'head.weight'.*got None"):
        featurize(model, token_cross_entropy, batch, loop=Loop(["core", "head"], "inject"))


def pair() -> tuple[Features, Features]:
    config = LoopedConfig(vocab=4, classes=3, d=4, tau=2, injection="concat")
    model = make_model(config, seed=0)
    loop = Loop(["inject", "core", "head"], "inject", "coda")
    sketch = SketchMap.draw({name: config.shapes()[name] for name in loop.select(config.shapes())}, m=16)
    train, query = (
        featurize(model, token_cross_entropy, make_batch(config, seed, n=n), loop=loop, sketch=sketch)
        for seed, n in ((1, 4), (2, 3))
    )
    return train, query


@pytest.mark.parametrize("verb", ["tracin", "sdi", "sdi_train", "step_matrix"])
def test_slow_scores_agree_with_those_of_the_core(verb: str) -> None:
    train, query = pair()
    slow, quick = getattr(reference, verb), getattr(scores, verb)
    assert inspect.signature(slow) == inspect.signature(quick)
    pairs = {"tracin": (train.g, query.g), "sdi": (train.g, query.phi), "sdi_train": (train.phi, query.g),
             "step_matrix": (train.phi, query.phi)}  # fmt: skip
    x, y = pairs[verb]
    # Inner products cancel: eps |x|^T |y| is the size of their rounding.
    tolerance = 10 * x.shape[-1] * np.finfo(float).eps * quick(np.abs(x), np.abs(y))
    assert (np.abs(slow(train, query) - quick(train, query)) <= tolerance).all()
    assert (slow(x, y) == slow(train, query)).all()


def test_slow_scores_sum_to_one_another() -> None:
    train, query = pair()
    assert query.outside is not None
    assert train.outside is not None
    matrix, by_query, by_train = (f(train, query) for f in (reference.step_matrix, reference.sdi, reference.sdi_train))
    total = reference.tracin(train, query)
    assert_close(by_query.sum(-1) + reference.tracin(train.g, query.outside), total)
    assert_close(by_train.sum(-1) + reference.tracin(train.outside, query.g), total)
    assert_close(matrix.sum(2) + reference.sdi(train.outside, query.phi), by_query)


def test_scores_refuse_features_that_were_not_made_alike() -> None:
    train, query = pair()
    other = replace(query, sketch="another")
    for verb in (reference.tracin, reference.sdi, reference.sdi_train, reference.step_matrix):
        with pytest.raises(SketchMismatch, match="featurize both with one sketch"):
            verb(train, other)
    with pytest.raises(ValueError, match="one width D, got 3 and 4"):
        reference.tracin(np.ones((1, 3)), np.ones((1, 4)))
    with pytest.raises(ValueError, match="sum phi over its steps first"):
        reference.tracin(np.ones((1, 2, 3)), np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"axes \(n, tau, D\)"):
        reference.sdi(np.ones((1, 3)), np.ones((1, 3)))


def test_the_backend_is_found_by_name_and_has_the_signature_of_the_protocol() -> None:
    found = backend("reference")
    wanted = list(inspect.signature(Featurize.__call__).parameters.values())[1:]
    got = list(inspect.signature(found.featurize).parameters.values())
    assert [(p.name, p.kind, p.default) for p in got] == [(p.name, p.kind, p.default) for p in wanted]
    config = LoopedConfig(vocab=4, classes=3, d=4, tau=2)
    batch = {"tokens": np.zeros((1, 2), dtype=int), "targets": np.zeros((1, 2), dtype=int)}
    model = LoopedTransformer.init(config, seed=0)
    assert found.featurize(model, token_cross_entropy, batch, loop=config.loop()).phi.shape[:2] == (1, 2)
