"""Parameters of the body that training does not move: left out, unless they are named one by one or all are so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sdi.inputs.fingerprint import loop_names
from sdi.loop import Loop


def frozen_among(parameters: Mapping[str, Any], named: Collection[str]) -> list[str]:
    """Those with requires_grad=False that were not named themselves; none if no other is left.

    A model that is frozen as a whole is one that was loaded for use: which parameters were trained cannot be seen.
    """
    frozen = [name for name, p in parameters.items() if not getattr(p, "requires_grad", True)]
    return [] if len(frozen) == len(parameters) else [name for name in frozen if name not in named]


def frozen_note(model: Any, loop: Loop) -> list[str]:
    """What a result says of them."""
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
