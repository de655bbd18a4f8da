"""Small models that use every choice of LoopedConfig: quick versions of what the slow tests look at in many."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from reference_cases import H, assert_close, loss_of

from sdi import Loop, LoopedConfig, SketchMap
from sdi.reference import (
    Featurizer,
    LoopedTransformer,
    TokenCrossEntropy,
    body_shapes,
    featurize,
    gradient,
    step_gradients,
    token_cross_entropy,
    weights_kept,
    with_weights,
)
from sdi.reference.batch import read_inputs, read_labels
from sdi.reference.gradients import gradients
from sdi.reference.step import in_loop

SMALL = LoopedConfig(vocab=4, classes=3, d=8, heads=2, tau=3, length=4)
CONFIGS = {
    "plain": SMALL,
    "everything": replace(
        SMALL, prelude=1, core=2, coda=1, injection="concat", activation="gelu_tanh", positions=True, rotary=True,
        head_bias=True, fused_qkv=True, qk_norm=True, norm_in=True, loop_norm=True, softcap=2.0,
    ),
    "rms": replace(SMALL, norm="rms", activation="relu2", read_in="onehot", state="zero", causal=False, rotary=True,
                   bias=False, bptt=2, norm_in=True, loop_norm=True),
    "closed": replace(SMALL, injection="none", norm_out=False, qk_norm=True, bptt=1, read_in="onehot"),
}  # fmt: skip
CASES = pytest.mark.parametrize("config", list(CONFIGS.values()), ids=list(CONFIGS))


def model_of(config: LoopedConfig) -> LoopedTransformer:
    rng = np.random.default_rng(0)
    return LoopedTransformer(config, {name: 0.4 * rng.normal(size=shape) for name, shape in config.shapes().items()})


def batch_of(config: LoopedConfig, length: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {
        "tokens": rng.integers(config.vocab, size=(3, length)),
        "targets": rng.integers(config.classes, size=(3, length)),
        "mask": np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]])[:, :length],
        "tau": np.array([4, 2, 3]),
        "readout": np.array([3, 2, 1]),
        "id": np.array(["x", "y", "z"]),
    }


def directions(config: LoopedConfig, seed: int = 2) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=shape) for name, shape in config.shapes().items()}


def moved(model: LoopedTransformer, v: dict[str, np.ndarray], by: complex) -> dict[str, np.ndarray]:
    return {name: w + by * v[name] if name in v else w for name, w in model.weights.items()}


def products(grads: dict[str, np.ndarray], v: dict[str, np.ndarray]) -> np.ndarray:
    """<grad, v> over the parameters' own axes, summed over parameters."""
    return sum(np.tensordot(grads[name], v[name], axes=v[name].ndim) for name in grads)


@CASES
def test_gradients_are_derivatives_along_a_direction_of_all_parameters(config: LoopedConfig) -> None:
    model, batch, v = model_of(config), batch_of(config), directions(config)
    grads = gradient(model, token_cross_entropy, batch)
    assert {name: g.shape for name, g in grads.items()} == {k: (3, *s) for k, s in config.shapes().items()}
    assert list(grads) == list(config.shapes())
    assert all(g.dtype == np.float64 for g in grads.values())
    if config.bptt is None:
        wanted = loss_of(LoopedTransformer(config, moved(model, v, 1j * H)), batch).imag / H
        np.testing.assert_allclose(products(grads, v), wanted, rtol=1e-10)


@CASES
def test_each_steps_gradient_is_the_derivative_by_that_steps_copy(config: LoopedConfig) -> None:
    """A copy that is used at one step alone: what truncation cuts off is cut off from it, too."""
    model, batch = model_of(config), batch_of(config)
    phi = step_gradients(model, token_cross_entropy, batch)
    v = {name: way for name, way in directions(config).items() if in_loop(name)}
    assert {name: p.shape for name, p in phi.items()} == {k: (3, 4, *config.shapes()[k]) for k in v}
    copy, got = moved(model, v, 1j * H), products(phi, v)
    for t in range(1, 5):
        logits = model.forward(batch, lambda now, t=t: copy if now == t else model.weights)
        wanted = token_cross_entropy.of_logits(logits, batch).imag / H
        np.testing.assert_allclose(got[:, t - 1], wanted, rtol=1e-10, atol=1e-14)
    assert (got != 0).tolist() == [[t <= r and t > r - (config.bptt or 9) for t in range(1, 5)] for r in (3, 2, 1)]


@CASES
def test_gradients_outside_the_loop_are_derivatives(config: LoopedConfig) -> None:
    """With truncation, too: what comes before the loop is reached through the steps that are kept."""
    model, batch = model_of(config), batch_of(config)
    v = {name: way for name, way in directions(config).items() if not in_loop(name)}
    grads = gradients(model, token_cross_entropy, batch)
    assert list(grads.outside) != []
    assert set(grads.outside) == set(v)
    wanted = loss_of(LoopedTransformer(config, moved(model, v, 1j * H)), batch).imag / H
    np.testing.assert_allclose(products(dict(grads.outside), v), wanted, rtol=1e-10)


@CASES
def test_gradients_at_complex_weights_carry_a_symmetric_second_derivative(config: LoopedConfig) -> None:
    """`through_training` differentiates a second time by a complex step."""
    model, batch = model_of(config), batch_of(config)
    u, v = directions(config, 3), directions(config, 4)
    if config.bptt is not None:  # with truncation, the steps' gradients are no gradient of one function
        u, v = ({k: w for k, w in each.items() if k.startswith("head")} for each in (u, v))

    def second(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> np.ndarray:
        grads = gradient(LoopedTransformer(config, moved(model, a, 1j * H)), token_cross_entropy, batch)
        return products({name: g for name, g in grads.items() if name in b}, b).imag / H

    one, other = second(u, v), second(v, u)
    assert (np.abs(one) > 1e-3).all()
    np.testing.assert_allclose(one, other, rtol=1e-9)


@CASES
def test_examples_do_not_see_each_other(config: LoopedConfig) -> None:
    model, batch = model_of(config), batch_of(config)
    together = step_gradients(model, token_cross_entropy, batch)
    for i in range(3):
        one = {key: x[i : i + 1] for key, x in batch.items()}
        for name, phi in step_gradients(model, token_cross_entropy, one).items():
            assert_close(together[name][i, : phi.shape[1]], phi[0], name, rtol=1e-11)


def test_features_are_sketches_of_gradients_with_everything_that_belongs_to_them() -> None:
    config = replace(CONFIGS["everything"], prelude=0)
    model, batch = model_of(config), batch_of(config)
    grads = gradients(model, token_cross_entropy, batch)
    loop = Loop(["head", "core.0", "norm_in"], "inject", "coda")
    body = body_shapes(model, loop)
    assert body == {k: s for k, s in config.shapes().items() if k.startswith(("head", "core.0", "norm_in"))}
    sketch = SketchMap.draw(body, m=9, seed=4)
    dense = featurize(model, token_cross_entropy, batch, loop=loop, ids=["a", "b", "c"])
    made = Featurizer(model, token_cross_entropy, loop=loop, sketch=sketch)(batch, ["a", "b", "c"])
    summed = Featurizer(model, token_cross_entropy, loop=loop, sketch=sketch, steps=False)(batch, ["a", "b", "c"])
    phi = {name: grads.phi[name] if in_loop(name) else np.zeros((3, 4, *body[name])) for name in body}
    outside = {name: np.zeros((3, *body[name])) if in_loop(name) else grads.outside[name] for name in body}
    total = {name: phi[name].sum(axis=1) + outside[name] for name in body}
    assert made.outside is not None
    assert dense.outside is not None
    np.testing.assert_array_equal(made.values, sketch.apply(phi))
    np.testing.assert_array_equal(made.outside, sketch.apply(outside))
    np.testing.assert_array_equal(summed.values, sketch.apply(total))
    np.testing.assert_array_equal(dense.values, SketchMap.keep(body).apply(phi))
    np.testing.assert_array_equal(dense.outside, SketchMap.keep(body).apply(outside))
    assert summed.outside is None
    for one, its in ((made, sketch), (summed, sketch), (dense, SketchMap.keep(body))):
        assert (one.blocks, one.sketch, one.ids) == (its.blocks, its.label, ("a", "b", "c"))
        np.testing.assert_array_equal(one.tau, [4, 2, 3])
        assert one.losses is not None
        np.testing.assert_array_equal(one.losses, loss_of(model, batch))


def test_the_featurizers_defaults_are_dense_steps_of_numbered_examples() -> None:
    model, batch = model_of(SMALL), batch_of(SMALL)
    made = Featurizer(model, token_cross_entropy, loop=SMALL.loop())(batch)
    wanted = featurize(model, token_cross_entropy, batch, loop=SMALL.loop())
    np.testing.assert_array_equal(made.values, wanted.values)
    assert made.ids == wanted.ids == ("0", "1", "2")
    assert made.outside is None
    assert made.has_steps


def test_a_batch_that_does_not_say_has_all_tokens_and_reads_out_at_the_end() -> None:
    inputs = read_inputs({"tokens": np.zeros((2, 3), dtype=np.int8)}, SMALL)
    assert inputs.tau.tolist() == inputs.readout.tolist() == [3, 3]
    assert all(x.dtype == np.int64 for x in (inputs.tokens, inputs.tau, inputs.readout))
    early = read_inputs({"tokens": np.zeros((2, 3), dtype=np.uint8), "tau": [2, 5]}, SMALL)
    assert early.readout.tolist() == [2, 5]
    labels = read_labels({"targets": np.array([[0, 2]])}, (1, 2), 3)
    assert (labels.mask.tolist(), labels.mask.dtype, labels.targets.tolist()) == ([[1.0, 1.0]], np.float64, [[0, 2]])
    masked = read_labels({"targets": np.array([[-100, 2]]), "mask": [[False, True]]}, (1, 2), 3)
    assert (masked.mask.tolist(), masked.mask.dtype, masked.targets.tolist()) == ([[0.0, 1.0]], np.float64, [[0, 2]])


def test_sequences_may_be_as_long_as_the_positions_and_longer_without() -> None:
    positions = replace(SMALL, positions=True)
    assert read_inputs({"tokens": np.zeros((1, 4), dtype=int)}, positions).tokens.shape == (1, 4)
    assert read_inputs({"tokens": np.zeros((1, 9), dtype=int)}, SMALL).tokens.shape == (1, 9)


def test_fresh_weights_are_noise_of_the_scale_and_norms_that_change_nothing() -> None:
    config = replace(CONFIGS["everything"], d=64, vocab=50)
    weights, louder = LoopedTransformer.init(config, 0).weights, LoopedTransformer.init(config, 0, scale=0.5).weights
    for name, w in weights.items():
        assert w.dtype == np.float64
        if w.ndim == 1:
            assert (w == (1 if name.endswith(".weight") else 0)).all()
            continue
        mean = np.tile(np.eye(64), 2) if name == "inject.weight" else 0
        assert abs((w - mean).std() / 0.02 - 1) < 0.15, name
        assert_close(louder[name] - mean, (w - mean) * 25, name)


def test_weights_of_a_checkpoint_make_another_model_and_leave_the_first_alone() -> None:
    model, v = model_of(SMALL), directions(SMALL)
    before = {name: w.copy() for name, w in model.weights.items()}
    other = with_weights(model, {name: w.astype(np.float32) for name, w in v.items()})
    with weights_kept(model):
        for name, w in v.items():
            assert other.weights[name].dtype == np.float64
            np.testing.assert_array_equal(other.weights[name], w.astype(np.float32))
            np.testing.assert_array_equal(model.weights[name], before[name])
    assert other.config is model.config
    with pytest.raises(TypeError, match="loop must be an"):
        body_shapes(model, "core")  # type: ignore[arg-type]


def test_weights_are_kept_in_double_precision_as_copies() -> None:
    given = {name: w.astype(np.float32) for name, w in model_of(SMALL).weights.items()}
    model = LoopedTransformer(SMALL, given)
    assert all(w.dtype == np.float64 for w in model.weights.values())
    before = model.weights["head.weight"].copy()
    given["head.weight"][:] = 0
    np.testing.assert_array_equal(model.weights["head.weight"], before)


def test_losses_and_their_gradients_survive_logits_of_any_size() -> None:
    """Each token is shifted by its own largest logit: with one shift for all, or away from zero, these overflow."""
    logits = np.array([[[900.0, 900.0], [-900.0, -900.0]], [[0.0, 0.0], [-800.0, 0.0]]])
    batch = {"targets": np.array([[0, 1], [0, 1]])}
    np.testing.assert_allclose(token_cross_entropy.of_logits(logits, batch), [np.log(2), np.log(2) / 2], rtol=1e-13)
    wanted = [[[-0.25, 0.25], [0.25, -0.25]], [[-0.25, 0.25], [0.0, 0.0]]]
    np.testing.assert_allclose(token_cross_entropy.dlogits(logits, batch), wanted, rtol=0, atol=1e-15)


def test_losses_of_another_precision_are_kept_in_double() -> None:
    class Single(TokenCrossEntropy):
        def __call__(self, model: LoopedTransformer, batch: Mapping[str, Any]) -> np.ndarray:
            return super().__call__(model, batch).astype(np.float32)

    made = featurize(model_of(SMALL), Single(), batch_of(SMALL), loop=SMALL.loop())
    assert made.losses is not None
    assert made.losses.dtype == np.float64


def test_a_norm_at_the_end_of_a_step_is_taken_there() -> None:
    """With the identity for a head, what is read out after a step has the moments of its norm."""
    for norm in ("layer", "rms"):
        config = replace(SMALL, d=4, classes=4, loop_norm=True, norm_out=False, norm=norm)
        weights = {**model_of(config).weights, "head.weight": np.eye(4)}
        weights |= {"loop_norm.weight": np.full(4, 2.0), "loop_norm.bias": np.full(4, 3.0)} if norm == "layer" else {}
        y = LoopedTransformer(config, weights).forward(batch_of(config))
        if norm == "layer":
            assert_close(y.mean(axis=-1), np.full((3, 3), 3.0))
        np.testing.assert_allclose(((y - y.mean(axis=-1, keepdims=True)) ** 2 if norm == "layer" else y**2).mean(-1),
                                   4 if norm == "layer" else 1, rtol=1e-3)  # fmt: skip
