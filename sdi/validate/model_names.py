"""Names of parameters as models have them: hundreds that differ in one digit, one letter, or early in a long name.

Also in any one of several numbers, and three long names with each of their letters changed.
"""

from __future__ import annotations

LAYERS = 24
PREFIXES = ("core", "blocks", "model.layers", "transformer.h", "encoder.layers", "decoder.layers")
PARTS = ("attn.q.weight", "attn.k.weight", "attn.q.bias", "attn.v.weight", "mlp.w.weight", "mlp.w.bias", "norm.weight")
NESTED = ("stages.{}.blocks.{}", "model.cycles.0.layers.{}.experts.{}")
CHANGED = (
    "model.decoder.layers.10.self_attn.q_proj.weight", "transformer.h.3.mlp.experts.7.down_proj.weight_orig",
    "core.0.attn.in_proj_weight",
)  # fmt: skip
LONG = "blocks.0." * 12
PAIRS = (
    ("core.q.weight", "core.k.weight"), ("core.0.weight", "core.1.weight"), ("core.weight", "core.bias"),
    ("core.wa", "core.wb"), ("core.1.weight", "core.11.weight"), ("core.weight", "core.weight_v"),
    ("core.q.weight", "core.Q.weight"), (f"{LONG}q.weight", f"{LONG}k.weight"), (f"{LONG}weight", f"{LONG}weights"),
    (f"a.{LONG}weight", f"b.{LONG}weight"), ("core.0.1.weight", "core.1.0.weight"), ("core.weight", "core_weight"),
    ("core..weight", "core.weight"), ("core.weight ", "core.weight"), ("core.gewicht", "core.gewicht\u00e4"),
    ("", "core.weight"), ("0", "1"), ("core.weight", "weight"), ("core.weight.core", "core.core.weight"),
)  # fmt: skip


def model_names() -> list[str]:
    """
    >>> len(model_names()), len(set(model_names()))
    (1228, 1228)
    """
    layers = [f"{prefix}.{layer}.{part}" for prefix in PREFIXES for layer in range(LAYERS) for part in PARTS]
    nested = [f"{one.format(i, j)}.{part}" for one in NESTED for i in range(4) for j in range(6) for part in PARTS[:2]]
    changed = [f"{name[:k]}z{name[k + 1 :]}" for name in CHANGED for k in range(len(name))]
    return [*layers, *nested, *changed]
