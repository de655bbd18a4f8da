"""Bad input is refused with the argument, the value and the rule."""

from __future__ import annotations

import numpy as np
import pytest

from sdi import CoverageError, Loop, LoopedConfig, NonFiniteError, SketchMap, SketchMismatch
from sdi.reference import LoopedTransformer, TokenCrossEntropy, featurize, gradient, token_cross_entropy

CONFIG = LoopedConfig(vocab=4, classes=3, d=4, tau=2, length=3, positions=True)
MODEL = LoopedTransformer.init(CONFIG, seed=0)
TOKENS = np.array([[0, 1, 2], [3, 0, 1]])
BATCH = {"tokens": TOKENS, "targets": np.zeros((2, 3), dtype=int)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tau": np.array([0, 1])}, "tau must be at least 1, got 0 in example 0"),
        ({"tau": np.array([2])}, r"tau must hold one step for each of the 2 examples, got shape \(1,\)"),
        ({"tau": np.array([1.0, 2.0])}, "tau must hold integers, got float64"),
        ({"readout": np.array([2, 0])}, "readout must be at least 1, got 0 in example 1"),
        ({"readout": np.array([2, 3])}, "readout must be at most tau, got 3 with tau=2 in example 1"),
        ({"tokens": np.array([[0, 1, 2], [3, 4, 1]])}, "tokens must be from 0 to 3, got 4 in example 1 at position 1"),
        ({"tokens": -TOKENS}, "tokens must be from 0 to 3, got -1 in example 0 at position 1"),
        ({"tokens": TOKENS[0]}, r"tokens must have axes \(n, L\).*got \(3,\)"),
        ({"tokens": TOKENS[:0]}, r"at least one example and one token, got \(0, 3\)"),
        ({"tokens": TOKENS * 1.0}, "tokens must hold integers, got float64"),
        ({"tokens": np.tile(TOKENS, 2)}, "at most 3 columns, the number of learned positions, got 6"),
        ({"targets": np.zeros((2, 2), dtype=int)}, r"targets must have the shape of tokens, \(2, 3\), got \(2, 2\)"),
        ({"targets": np.full((2, 3), 3)}, "targets must be from 0 to 2, got 3 in example 0 at position 0"),
        ({"mask": np.ones(3)}, r"mask must have the shape of tokens, \(2, 3\), got \(3,\)"),
        ({"mask": np.array([[1, 0, 0], [0, 0, 0]])}, "at least one token in every example, got none in example 1"),
        ({"mask": np.full((2, 3), np.nan)}, "mask must hold finite weights of at least 0"),
        ({"mask": -np.ones((2, 3))}, "mask must hold finite weights of at least 0"),
    ],
)
def test_bad_batches_are_refused(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        featurize(MODEL, token_cross_entropy, {**BATCH, **change}, loop=CONFIG.loop())


def test_a_batch_without_tokens_or_targets_is_refused() -> None:
    for name in BATCH:
        rest = {key: array for key, array in BATCH.items() if key != name}
        with pytest.raises(ValueError, match=f"batch must hold '{name}', got only"):
            featurize(MODEL, token_cross_entropy, rest, loop=CONFIG.loop())


def test_bad_weights_are_refused() -> None:
    weights = dict(MODEL.weights)
    broken = weights["core.0.mlp.up.weight"].copy()
    broken[2, 1] = np.nan
    with pytest.raises(NonFiniteError, match=r"'core.0.mlp.up.weight' must be finite, got nan at index \(2, 1\)"):
        LoopedTransformer(CONFIG, {**weights, "core.0.mlp.up.weight": broken})
    with pytest.raises(ValueError, match=r"'head.weight' must have shape \(3, 4\), got \(4, 3\)"):
        LoopedTransformer(CONFIG, {**weights, "head.weight": weights["head.weight"].T})
    with pytest.raises(ValueError, match=r"weights must hold 'head.weight' \(3, 4\), which is missing"):
        LoopedTransformer(CONFIG, {name: w for name, w in weights.items() if name != "head.weight"})
    with pytest.raises(ValueError, match=r"'heads.weight', which the config does not have; did you mean 'head.weight'"):
        LoopedTransformer(CONFIG, {**weights, "heads.weight": weights["head.weight"]})


def test_bad_loops_are_refused() -> None:
    with pytest.raises(CoverageError, match="body entry 'coer' matches no parameter of the model; did you mean 'core"):
        featurize(MODEL, token_cross_entropy, BATCH, loop=Loop("coer", "inject"))
    with pytest.raises(ValueError, match=r"loop.step must be 'inject'.*got 'core'"):
        featurize(MODEL, token_cross_entropy, BATCH, loop=Loop("core", "core"))
    with pytest.raises(ValueError, match=r"loop.end must be one of .*'norm_out', 'head'.* got 'core'"):
        featurize(MODEL, token_cross_entropy, BATCH, loop=Loop("core", "inject", "core"))


def test_a_sketch_for_other_parameters_is_refused() -> None:
    body = {name: shape for name, shape in CONFIG.shapes().items() if name.startswith("core")}
    for shapes, message in [
        ({**body, "head.weight": (3, 4)}, "is for 'head.weight', which is not in the body"),
        ({**body, "core.0.norm1.bias": (5,)}, r"'core.0.norm1.bias' with shape \(5,\), the model has \(4,\)"),
        ({"core.0.norm1.bias": (4,)}, "has no parameter 'core.0.norm1.weight'"),
    ]:
        with pytest.raises(SketchMismatch, match=message):
            featurize(MODEL, token_cross_entropy, BATCH, loop=CONFIG.loop(), sketch=SketchMap.draw(shapes, m=8))


def test_a_loss_without_a_gradient_of_its_own_is_refused() -> None:
    with pytest.raises(TypeError, match=r"loss must have a method dlogits\(logits, batch\).*no autograd"):
        featurize(MODEL, lambda model, batch: np.zeros(2), BATCH, loop=CONFIG.loop())


def test_a_loss_with_a_gradient_of_the_wrong_shape_is_refused() -> None:
    class Flat(TokenCrossEntropy):
        def dlogits(self, logits: np.ndarray, batch: object) -> np.ndarray:
            return logits.sum(axis=-1)

    with pytest.raises(ValueError, match=r"must return the shape of logits, \(2, 3, 3\), got \(2, 3\)"):
        gradient(MODEL, Flat(), BATCH)


def test_a_model_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="must be a reference LoopedTransformer, got dict; for another model use"):
        featurize({}, token_cross_entropy, BATCH, loop=CONFIG.loop())
