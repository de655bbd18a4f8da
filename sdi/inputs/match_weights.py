"""Matching a checkpoint's tensors with a model's parameters."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sdi.inputs.unwrap import unwrapped_names


def match_names(
    weights: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]], complex_names: Collection[str] = ()
) -> dict[str, Any]:
    """A checkpoint's weights under the model's parameter names; an error lists missing, unexpected and misshapen ones.

    complex_names: the model's complex parameters. Complex weights for any other are refused.

    >>> match_names({"module.w": 1.0}, {"w": ()})
    {'w': 1.0}
    """
    own = dict(zip(unwrapped_names(shapes), shapes, strict=True))
    found = {own.get(bare, bare): w for bare, w in zip(unwrapped_names(weights), weights.values(), strict=True)}
    missing = [name for name in shapes if name not in found]
    unexpected = [name for name in found if name not in shapes]
    if missing or unexpected:
        odd = [f"{word} {_some(names)}" for word, names in (("missing", missing), ("unexpected", unexpected)) if names]
        raise ValueError("the checkpoint does not fit the model: " + "; ".join(odd))
    wrong = [
        f"{name!r} has shape {tuple(found[name].shape)}, the model's {tuple(shape)}"
        for name, shape in shapes.items()
        if tuple(getattr(found[name], "shape", ())) != tuple(shape)
    ]
    wrong += [
        f"{name!r} holds complex numbers, the model's real ones"
        for name in shapes
        if "complex" in str(getattr(found[name], "dtype", "")) and name not in complex_names
    ]
    if wrong:
        raise ValueError("the checkpoint does not fit the model: " + "; ".join(wrong[:10]))
    return found


def _some(names: list[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more
