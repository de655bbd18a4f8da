"""Fingerprints of a model and a loss: what a store compares, besides weights and data, before it is used again.

They see a model's structure and plain attributes, and a loss's own code with its constants, defaults and closure. What
a loss calls in turn, and the code of a model's forward, they do not see.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from sdi.batches import PLAIN
from sdi.loop import Loop


def model_fingerprint(model: Any) -> dict[str, Any]:
    """The model's class and plain attributes, readable, and a digest of its parts."""
    modules = model.named_modules() if hasattr(model, "named_modules") else ()
    parts = [f"{name} {type(m).__qualname__} {json.dumps(plain(vars(m)), sort_keys=True)}" for name, m in modules]
    if hasattr(model, "named_parameters"):
        parts += [f"{name} {p.dtype}" for name, p in model.named_parameters()]
    return {
        "class": type(model).__qualname__,
        "parts": _digest("\n".join(parts)),
        **plain(getattr(model, "__dict__", {})),
    }


def loop_names(model: Any, loop: Loop) -> dict[str, Any]:
    """The loop by names, whether it was given by names or by modules."""
    names = {id(m): name for name, m in model.named_modules()} if hasattr(model, "named_modules") else {}

    def name(entry: Any) -> Any:
        return entry if entry is None or isinstance(entry, str) else names.get(id(entry), type(entry).__qualname__)

    return {"body": [name(entry) for entry in loop.body], "step": name(loop.step), "end": name(loop.end)}


def loss_fingerprint(loss: Any) -> str:
    """A loss's name, and a digest of what it does."""
    name = getattr(loss, "__qualname__", type(loss).__qualname__)
    return f"{name} {_digest(_function(loss))}"


def class_fingerprint(cls: type) -> str:
    """A digest of a class's own code and plain attributes, and of those it inherits from outside this library."""
    parts = []
    for base in cls.__mro__:
        if base is not object and base.__module__.split(".")[0] not in ("sdi", "abc", "typing"):
            functions = {k: getattr(f, "__func__", getattr(f, "fget", f)) for k, f in sorted(vars(base).items())}
            parts += [f"{k} {_function(f)}" for k, f in functions.items() if hasattr(f, "__code__")]
            parts.append(json.dumps(plain(vars(base)), sort_keys=True))
    return _digest("\n".join(parts))


def plain(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The public attributes that are numbers, words, lists of these, or configs that can write themselves out."""
    out: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith("_") or key == "training":
            continue
        if isinstance(value, PLAIN):
            out[key] = value if isinstance(value, (bool, int, str)) or value is None else repr(value)
        elif isinstance(value, (list, tuple)) and all(isinstance(v, PLAIN) for v in value):
            out[key] = repr(value)
        elif callable(getattr(value, "to_dict", None)) and not isinstance(value, type):
            out[key] = json.loads(json.dumps(value.to_dict(), default=str))
    return out


def _function(f: Any) -> str:
    if isinstance(f, partial):
        return f"{_function(f.func)} {_values(f.args)} {json.dumps(plain(f.keywords), sort_keys=True)}"
    code = getattr(f, "__code__", None) or getattr(type(f).__call__, "__code__", None)
    cells = [cell.cell_contents for cell in getattr(f, "__closure__", None) or ()]
    held = [_values(getattr(f, "__defaults__", None) or ()), _values(cells)]
    own = json.dumps(plain(getattr(f, "__dict__", {})), sort_keys=True)
    return f"{'' if code is None else _code(code)} {held} {own}"


def _values(values: Any) -> str:
    return repr([v if isinstance(v, PLAIN) else _code(v.__code__) if hasattr(v, "__code__") else "?" for v in values])


def _code(code: Any) -> str:
    parts = [code.co_code.hex(), repr(code.co_names)]
    for c in code.co_consts:
        # A set of strings is printed in another order in every process.
        words = repr(sorted(map(repr, c)) if isinstance(c, frozenset) else c)
        parts.append(_code(c) if hasattr(c, "co_code") else words)
    return "|".join(parts)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
