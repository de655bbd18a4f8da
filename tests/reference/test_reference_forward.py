"""The forward pass against identities that pin down each convention of LoopedConfig."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from reference_cases import assert_close, loss_of

from sdi import LoopedConfig
from sdi.reference import LoopedTransformer, token_cross_entropy
from sdi.reference.activations import activation
from sdi.reference.attention import softmax_attention
from sdi.reference.norms import layer_norm, rms_norm
from sdi.reference.rotary import rotate
from sdi.testing import make_batch, make_model

CONFIG = LoopedConfig(vocab=4, classes=3, d=8, heads=2, tau=3, length=5)
BATCH = {**make_batch(CONFIG, seed=0, length=5), "readout": np.array([1, 2, 3]), "tau": np.array([3, 3, 3])}


def logits(config: LoopedConfig, weights: dict[str, np.ndarray], batch: dict[str, np.ndarray] = BATCH) -> np.ndarray:
    return LoopedTransformer(config, weights).forward(batch)


def changed(**options: object) -> tuple[LoopedConfig, dict[str, np.ndarray]]:
    config = replace(CONFIG, **options)
    return config, dict(make_model(config, seed=1).weights)


def block_by_hand(x: np.ndarray, w: dict[str, np.ndarray], name: str, heads: int, causal: bool) -> np.ndarray:
    """One example, one token, one head at a time."""

    def norm(row: np.ndarray, part: str) -> np.ndarray:
        scaled = (row - row.mean()) / math.sqrt(row.var() + 1e-5)
        return scaled * w[f"{name}.{part}.weight"] + w[f"{name}.{part}.bias"]

    def linear(row: np.ndarray, part: str) -> np.ndarray:
        return w[f"{name}.{part}.weight"] @ row + w[f"{name}.{part}.bias"]

    length, d = x.shape
    c = d // heads
    q, k, v = ([linear(norm(row, "norm1"), f"attn.{part}") for row in x] for part in "qkv")
    y = []
    for i in range(length):
        seen = range(i + 1) if causal else range(length)
        mixed = np.zeros(d)
        for h in range(heads):
            at = slice(h * c, (h + 1) * c)
            scores = [math.exp(q[i][at] @ k[j][at] / math.sqrt(c)) for j in seen]
            mixed[at] = sum(p / sum(scores) * v[j][at] for p, j in zip(scores, seen, strict=True))
        y.append(x[i] + linear(mixed, "attn.o"))
    gelu = np.vectorize(lambda z: z * 0.5 * (1 + math.erf(z / math.sqrt(2))))
    return np.array([row + linear(gelu(linear(norm(row, "norm2"), "mlp.up")), "mlp.down") for row in y])


@pytest.mark.parametrize("causal", [True, False])
def test_the_model_equals_one_written_out_token_by_token(causal: bool) -> None:
    config, w = changed(causal=causal, norm_out=False, positions=True)
    got = logits(config, w)
    for i, r in enumerate(BATCH["readout"]):
        e = w["read_in.weight"][BATCH["tokens"][i]] + w["positions.weight"][:5]
        s = e
        for _ in range(r):
            s = block_by_hand(s + e, w, "core.0", config.heads, causal)
        assert_close(got[i], s @ w["head.weight"].T, f"example {i}")


def test_a_causal_model_does_not_look_ahead_and_a_bidirectional_one_does() -> None:
    later = {**BATCH, "tokens": BATCH["tokens"].copy()}
    later["tokens"][:, -1] = (later["tokens"][:, -1] + 1) % 4
    for causal in (True, False):
        config, w = changed(causal=causal)
        same = (logits(config, w)[:, :-1] == logits(config, w, later)[:, :-1]).all()
        assert same == causal


def test_concat_reads_the_input_first_and_contains_the_other_injections() -> None:
    eye, zero = np.eye(8), np.zeros((8, 8))
    _, w = changed(injection="none")
    joined = {name: {**w, "inject.weight": np.hstack(parts)} for name, parts in
              {"add": (eye, eye), "none": (zero, eye), "input only": (eye, zero)}.items()}  # fmt: skip
    concat = replace(CONFIG, injection="concat")
    for name in ("add", "none"):
        assert_close(logits(concat, joined[name]), logits(replace(CONFIG, injection=name), w), name)
    once = logits(concat, joined["input only"], {**BATCH, "readout": np.ones(3, dtype=int)})
    assert_close(logits(concat, joined["input only"]), once, "the state is not read")


def test_a_zero_state_begins_with_the_injected_input_alone() -> None:
    _, w = changed(injection="add")
    batch = {**BATCH, "readout": np.ones(3, dtype=int)}
    from_zero = logits(replace(CONFIG, state="zero", injection="add"), w, batch)
    assert_close(from_zero, logits(replace(CONFIG, state="embedding", injection="none"), w, batch))


def test_a_onehot_read_in_is_the_transposed_embedding_and_a_bias() -> None:
    config, w = changed(read_in="onehot")
    embedding = {**w, "read_in.weight": w["read_in.weight"].T + w["read_in.bias"]}
    del embedding["read_in.bias"]
    assert_close(logits(config, w), logits(CONFIG, embedding))


def test_a_fused_projection_holds_q_k_v_in_this_order() -> None:
    config, w = changed(fused_qkv=True)
    apart = {name: x for name, x in w.items() if ".qkv." not in name}
    for part in ("weight", "bias"):
        for name, x in zip("qkv", np.split(w[f"core.0.attn.qkv.{part}"], 3), strict=True):
            apart[f"core.0.attn.{name}.{part}"] = x
    assert_close(logits(config, w), logits(CONFIG, apart))


def test_rotary_scores_depend_on_the_distance_of_two_tokens_alone() -> None:
    rng = np.random.default_rng(0)
    q, k = (np.broadcast_to(rng.normal(size=6), (1, 1, 7, 6)) for _ in range(2))
    scores = np.einsum("nhic,nhjc->ij", rotate(q), rotate(k))
    for distance in range(-6, 7):
        diagonal = np.diagonal(scores, distance)
        assert_close(diagonal, np.full_like(diagonal, diagonal[0]), rtol=1e-13)
    assert len(np.unique(scores.round(9))) == 13


def test_rotary_turns_the_halves_by_position_times_base() -> None:
    x = np.array([1.0, 0.0, 0.0, 1.0]) * np.ones((1, 1, 3, 1))
    slow = 2 / 1e4**0.5
    wanted = [math.cos(2), -math.sin(slow), math.sin(2), math.cos(slow)]
    assert_close(rotate(x)[0, 0, 2], np.array(wanted), rtol=1e-15)


def test_qk_norm_makes_attention_blind_to_the_size_of_q_and_k() -> None:
    config, w = changed(qk_norm=True, rotary=True, bias=False)
    louder = {name: x * (1e3 if ".attn.q." in name or ".attn.k." in name else 1) for name, x in w.items()}
    loudest = {name: x * (1e6 if ".attn.q." in name or ".attn.k." in name else 1) for name, x in w.items()}
    assert_close(logits(config, louder), logits(config, loudest), rtol=1e-9)
    assert_close(logits(config, w), logits(config, louder), rtol=1e-3)  # up to the norm's epsilon
    assert np.abs(logits(replace(config, qk_norm=False), w) - logits(config, w)).max() > 1e-3


def test_norms_have_the_moments_they_promise() -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 8)) * 5 + 2
    y = layer_norm(x, {"z.weight": np.ones(8), "z.bias": np.zeros(8)}, "z")[0]
    assert_close(y * np.sqrt(x.var(-1, keepdims=True) + 1e-5), x - x.mean(-1, keepdims=True), rtol=1e-14)
    assert_close(rms_norm(x)[0] * np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6), x, rtol=1e-14)


def test_activations_take_their_known_values() -> None:
    x = np.array([-0.5, 1.0])
    np.testing.assert_allclose(activation(x, "gelu")[0], [-0.15426876936299344, 0.8413447460685429], rtol=1e-14)
    by_hand = [z / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (z + 0.044715 * z**3))) for z in x]
    np.testing.assert_allclose(activation(x, "gelu_tanh")[0], by_hand, rtol=1e-14)
    np.testing.assert_array_equal(activation(x, "relu2")[0], [0.0, 1.0])
    with pytest.raises(ValueError, match="activation must be"):
        activation(x, "swish")


def test_softmax_survives_large_scores() -> None:
    q = np.full((1, 1, 2, 4), 100.0)
    v = np.arange(8.0).reshape(1, 1, 2, 4)
    np.testing.assert_array_equal(softmax_attention(q, q, v, causal=True)[0][0, 0, 0], v[0, 0, 0])
    assert np.isfinite(token_cross_entropy.of_logits(np.full((1, 1, 2), 1e4), {"targets": [[0]]})).all()


def test_a_softcap_bounds_the_logits_and_is_the_identity_near_zero() -> None:
    config, w = changed()
    raw, capped = logits(config, w), logits(replace(config, softcap=0.5), w)
    assert_close(capped, 0.5 * np.tanh(raw / 0.5), rtol=1e-14)


def test_the_loss_is_the_masked_mean_of_minus_log_probability() -> None:
    config, w = changed()
    y = logits(config, w)
    p = np.exp(y) / np.exp(y).sum(-1, keepdims=True)
    for i, loss in enumerate(loss_of(LoopedTransformer(config, w), BATCH)):
        tokens = np.flatnonzero(BATCH["mask"][i])
        wanted = np.mean([-math.log(p[i, l, BATCH["targets"][i, l]]) for l in tokens])
        assert loss == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("config", [LoopedConfig.parity(d=16, heads=4, tau=3), LoopedConfig.sudoku(d=16, tau=3),
                                    LoopedConfig.looped_gpt(vocab=9, classes=9, d=24, tau=3)])  # fmt: skip
def test_the_papers_models_run_and_start_undecided(config: LoopedConfig) -> None:
    model = LoopedTransformer.init(config, seed=0)
    batch = make_batch(config, seed=0)
    assert loss_of(model, batch) == pytest.approx(math.log(config.classes), rel=0.2)
    again = LoopedTransformer.init(config, seed=0)
    assert all((model.weights[name] == again.weights[name]).all() for name in config.shapes())
