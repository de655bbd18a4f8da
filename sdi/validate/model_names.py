"""Names of parameters as models have them: hundreds that differ in one digit, one letter, or early in a long name."""

from __future__ import annotations

LAYERS = 24
PREFIXES = ("core", "blocks", "model.layers", "transformer.h", "encoder.layers", "decoder.layers")
PARTS = ("attn.q.weight", "attn.k.weight", "attn.q.bias", "attn.v.weight", "mlp.w.weight", "mlp.w.bias", "norm.weight")
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
    (1008, 1008)
    """
    return [f"{prefix}.{layer}.{part}" for prefix in PREFIXES for layer in range(LAYERS) for part in PARTS]
