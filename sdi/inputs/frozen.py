"""Frozen body parameters (requires_grad=False) are left out, unless named one by one or all of the body is frozen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sdi.inputs.fingerprint import loop_names
from sdi.loop import Loop


def frozen_among(parameters: Mapping[str, Any], named: Collection[str]) -> list[str]:
    """The parameters with requires_grad=False that are not in `named`; [] if all are frozen.

    A model whose parameters are all frozen was loaded for inference: it does not show which ones were trained.
    """
    frozen = [name for name, p in parameters.items() if not getattr(p, "requires_grad", True)]
    return [] if len(frozen) == len(parameters) else [name for name in frozen if name not in named]


def frozen_note(model: Any, loop: Loop) -> list[str]:
    """A note for the result that lists the frozen parameters that were left out; [] if there are none."""
    if not hasattr(model, "named_parameters"):
        return []
    body = [str(name) for name in loop_names(model, loop)["body"]]
    every = dict(model.named_parameters())
    chosen = {name: p for name, p in every.items() if any(_within(name, entry) for entry in body)}
    left = frozen_among(chosen, body)
    if not left:
        return []
    some = ", ".join(left[:3]) + (f" and {len(left) - 3} more" if len(left) > 3 else "")
    return [
        f"left out, because training does not move them (requires_grad=False): {some}; name one in body to trace it"
    ]


def _within(name: str, entry: str) -> bool:
    return entry == "" or name == entry or name.startswith(entry + ".")
