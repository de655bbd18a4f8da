"""Names of parameters as models have them: hundreds that differ in one digit, one letter, or early in a long name.

Also in any one of several numbers, in the word that well-known models use, and three long names with each of their
letters changed.
"""

from __future__ import annotations

LAYERS = 24
EXPERTS = 2500  # so many names that two of them meet in a hash of 20 bits or fewer
PREFIXES = ("core", "blocks", "model.layers", "transformer.h", "encoder.layers", "decoder.layers")
PARTS = ("attn.q.weight", "attn.k.weight", "attn.q.bias", "attn.v.weight", "mlp.w.weight", "mlp.w.bias", "norm.weight")
NESTED = ("stages.{}.blocks.{}", "model.cycles.0.layers.{}.experts.{}")
CHANGED = (
    "model.decoder.layers.10.self_attn.q_proj.weight", "transformer.h.3.mlp.experts.7.down_proj.weight_orig",
    "core.0.attn.in_proj_weight",
)  # fmt: skip
# What the layers of well-known models call their parameters: any two of them must be told apart.
CALLED = (
    "q_proj", "k_proj", "v_proj", "o_proj", "out_proj", "in_proj", "gate_proj", "up_proj", "down_proj", "query", "key",
    "value", "dense", "c_attn", "c_proj", "c_fc", "fc1", "fc2", "w1", "w2", "w3", "wq", "wk", "wv", "wo", "to_q",
    "to_k", "to_v", "to_out", "query_key_value", "dense_h_to_4h", "dense_4h_to_h", "linear1", "linear2", "norm1",
    "norm2", "ln_1", "ln_2", "input_layernorm", "post_attention_layernorm", "q_norm", "k_norm", "gate", "router",
    "lora_A", "lora_B", "embed_tokens", "lm_head", "x_proj", "dt_proj",
)  # fmt: skip
LONG = "blocks.0." * 12
PAIRS = (
    ("core.q.weight", "core.k.weight"), ("core.0.weight", "core.1.weight"), ("core.weight", "core.bias"),
    ("core.wa", "core.wb"), ("core.1.weight", "core.11.weight"), ("core.weight", "core.weight_v"),
    ("core.q.weight", "core.Q.weight"), (f"{LONG}q.weight", f"{LONG}k.weight"), (f"{LONG}weight", f"{LONG}weights"),
    (f"a.{LONG}weight", f"b.{LONG}weight"), ("core.0.1.weight", "core.1.0.weight"), ("core.weight", "core_weight"),
    ("core.gewicht\u00e4", "core.gewicht\u00f6"), (f"{LONG * 3}q.weight", f"{LONG * 3}k.weight"),
    ("core..weight", "core.weight"), ("core.weight ", "core.weight"), ("core.gewicht", "core.gewicht\u00e4"),
    ("", "core.weight"), ("0", "1"), ("core.weight", "weight"), ("core.weight.core", "core.core.weight"),
)  # fmt: skip


def model_names() -> list[str]:
    """
    >>> len(model_names()), len(set(model_names()))
    (3828, 3828)
    """
    layers = [f"{prefix}.{layer}.{part}" for prefix in PREFIXES for layer in range(LAYERS) for part in PARTS]
    nested = [f"{one.format(i, j)}.{part}" for one in NESTED for i in range(4) for j in range(6) for part in PARTS[:2]]
    changed = [f"{name[:k]}z{name[k + 1 :]}" for name in CHANGED for k in range(len(name))]
    called = [f"model.layers.0.self_attn.{name}.{part}" for name in CALLED for part in ("weight", "bias")]
    experts = [f"experts.{k}.w" for k in range(EXPERTS)]
    return [*layers, *nested, *changed, *called, *experts]
