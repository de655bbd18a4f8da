"""Matching a checkpoint's tensors with a model's parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WRAPPERS = ("module.", "_orig_mod.")  # what distributed training and torch.compile put before every name


def match_names(weights: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """The weights under the model's own names; missing, unexpected and misshapen ones are listed.

    >>> match_names({"module.w": 1.0}, {"w": ()})
    {'w': 1.0}
    """
    found = dict(weights)
    for wrapper in WRAPPERS:
        if found and all(name.startswith(wrapper) for name in found):
            found = {name.removeprefix(wrapper): w for name, w in found.items()}
    missing = [name for name in shapes if name not in found]
    unexpected = [name for name in found if name not in shapes]
    if missing or unexpected:
        raise ValueError(
            f"the checkpoint does not fit the model: missing {_some(missing)}; unexpected {_some(unexpected)}"
        )
    for name, shape in shapes.items():
        if tuple(getattr(found[name], "shape", ())) != tuple(shape):
            raise ValueError(
                f"the checkpoint's {name!r} has shape {tuple(found[name].shape)}, the model's {tuple(shape)}"
            )
    return found


def _some(names: list[str], most: int = 10) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(map(repr, names[:most])) + more if names else "nothing"
