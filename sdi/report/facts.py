"""facts: what a run was, in words: sizes, settings, checkpoints; and what its audit established."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sdi.printable import printable
from sdi.result.result import Result

MODES = {
    "query": "steps of the query",
    "train": "steps of the training example",
    "matrix": "steps of both",
    "tracin": "no steps",
}
AUDITS = {
    "first": (
        "Passed: the first batch of each side agrees with autograd, parameter by parameter, and examples alone agree "
        "with themselves in their batch. A mismatch stops a run. Rows that a store held were audited by the run that "
        "made them."
    ),
    "every": (
        "Passed: every batch at every checkpoint agrees with autograd, parameter by parameter, and examples alone "
        "agree with themselves in their batch. A mismatch stops a run. Rows that a store held were audited by the run "
        "that made them."
    ),
    "off": "Not audited: the run was made with audit='off'.",
}
UNKNOWN = "Not known: the result does not say how it was audited (an older sdi, or another way of scoring, made it)."


def facts(result: Result) -> list[list[str]]:
    """Pairs of a name and a value, to be shown as they are."""
    settings = dict(result.info.get("settings", {}))
    sizes = result.sizes
    out = [
        ["scores", f"{sizes['train']:,} training examples × {sizes['query']:,} queries, {MODES[result.mode]}"],
        ["loop steps", str(sizes.get("step", 0))],
    ]
    out += [[name, _words(settings[name])] for name in ("backend", "m", "sketch", "family", "seed") if name in settings]
    if "repeats" in settings:
        bars = {"bound": "worst case of the sketch", "estimated": "estimated from the sketched numbers"}
        kind = bars.get(str(settings.get("stderr")), str(settings.get("stderr", "")))
        repeats = int(settings["repeats"])
        out.append(["error bars", kind if repeats == 1 else f"from the spread of {repeats} sketches"])
    etas = result.info.get("eta", {})
    loss = result.arrays.get("loss")
    for k, key in enumerate(result.labels["checkpoint"]):
        words = [f"eta {_words(etas[key])}"] if key in etas else []
        words += [f"mean loss of the queries {float(np.mean(loss[k])):.4g}"] if loss is not None else []
        out.append([f"checkpoint {printable(key)}", ", ".join(words)])
    if "sdi" in result.info:
        out.append(["sdi", printable(result.info["sdi"])])
    return [[printable(name), value] for name, value in out]


def audit_words(result: Result) -> dict[str, Any]:
    """The audit's verdict: whether it passed (None: not known), and a sentence."""
    kind = result.info.get("settings", {}).get("audit")
    passed = {"first": True, "every": True, "off": False}.get(str(kind))
    return {"passed": passed, "words": AUDITS.get(str(kind), UNKNOWN)}


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return printable(", ".join(f"{name}: {_words(part)}" for name, part in value.items()))
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none: gradients are kept whole" if value is None else printable(value)
